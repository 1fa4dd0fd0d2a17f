// Confidence and likelihood as colours; the same stops as the pictures the server draws.

const STOPS = [[0, [213, 94, 0]], [0.5, [245, 215, 60]], [1, [0, 158, 115]]];

export function confidenceColour(confidence) {
  const upper = Math.max(1, STOPS.findIndex(([stop]) => confidence <= stop));
  const [[from, low], [to, high]] = [STOPS[upper - 1], STOPS[upper]];
  const part = (confidence - from) / (to - from);
  return `rgb(${low.map((value, channel) => Math.round(value + part * (high[channel] - value))).join(" ")})`;
}

/** Violet over red to yellow: dark enough to be seen on a light object, bright enough on a dark one. */
const heatColour = (heat) => (heat < 0.5 ? [130 + 220 * heat, 70 * heat, 170 - 200 * heat] : [240 + 30 * (heat - 0.5), 35 + 360 * (heat - 0.5), 70 - 80 * (heat - 0.5)]);

/** Draw a grid of likelihoods, one pixel a cell; the browser smooths it when it enlarges the canvas. */
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
