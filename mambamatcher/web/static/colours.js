// Colours of confidence and heat maps. The confidence colours are those of the images that the server draws.

const STOPS = [[0, [213, 94, 0]], [0.5, [245, 215, 60]], [1, [0, 158, 115]]];

export function confidenceColour(confidence) {
  const upper = Math.max(1, STOPS.findIndex(([stop]) => confidence <= stop));
  const [[from, low], [to, high]] = [STOPS[upper - 1], STOPS[upper]];
  const fraction = (confidence - from) / (to - from);
  return `rgb(${low.map((value, channel) => Math.round(value + fraction * (high[channel] - value))).join(" ")})`;
}

/** Violet via red to yellow: visible on light and on dark objects. */
const heatColour = (heat) => (heat < 0.5 ? [130 + 220 * heat, 70 * heat, 170 - 200 * heat] : [240 + 30 * (heat - 0.5), 35 + 360 * (heat - 0.5), 70 - 80 * (heat - 0.5)]);

/** Draw a heat map with one pixel per cell; the browser interpolates when it enlarges the canvas. */
export function drawHeatmap(canvas, heatmap) {
  const bytes = Uint8Array.from(atob(heatmap.values), (letter) => letter.charCodeAt(0));
  canvas.width = heatmap.columns;
  canvas.height = heatmap.rows;
  const pixels = new ImageData(heatmap.columns, heatmap.rows);
  bytes.forEach((value, index) => {
    pixels.data.set([...heatColour(value / 255), 225 * (value / 255) ** 0.6], 4 * index);
  });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}
