// An image of the matches: both images side by side, numbered points joined by lines; as mambamatcher/io/drawing.py.

import { confidenceColour } from "./colours.js";

const HEIGHT = 480; // of the drawn images
const GAP = 12;
const LEGEND = 28; // height of the strip that explains the colours
const RADIUS = 8;

/** Draw two images (url, width, height) and their matches. Returns a PNG file. */
export async function drawMatches(source, target, matches) {
  const panels = await Promise.all([source, target].map(loadImage));
  const widths = panels.map((panel) => Math.max(1, Math.round((panel.naturalWidth * HEIGHT) / panel.naturalHeight)));
  const canvas = document.createElement("canvas");
  canvas.width = widths[0] + GAP + widths[1];
  canvas.height = HEIGHT + LEGEND;
  const pen = canvas.getContext("2d");
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const lefts = [0, widths[0] + GAP];
  panels.forEach((panel, side) => pen.drawImage(panel, lefts[side], 0, widths[side], HEIGHT));
  const numbered = matches.map((match, index) => ({
    ends: [match.source, match.target].map(([x, y], side) => [lefts[side] + (x * HEIGHT) / panels[side].naturalHeight, (y * HEIGHT) / panels[side].naturalHeight]),
    colour: match.matched ? confidenceColour(match.confidence) : null,
    label: String(index + 1),
  }));
  numbered.filter(({ colour }) => colour).forEach((match) => drawLine(pen, match));
  numbered.sort((one, other) => Boolean(one.colour) - Boolean(other.colour)); // the hollow ones below
  for (const { ends, colour, label } of numbered) ends.forEach((end) => drawDot(pen, end, colour, label));
  drawLegend(pen);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function loadImage({ url }) {
  const image = new Image();
  image.src = url;
  return image.decode().then(() => image);
}

function drawLine(pen, { ends, colour }) {
  for (const [width, style] of [[3, "black"], [2, colour]]) {
    pen.beginPath();
    ends.forEach((end) => pen.lineTo(...end));
    Object.assign(pen, { lineWidth: width, strokeStyle: style }).stroke();
  }
}

function drawDot(pen, [x, y], colour, label) {
  pen.beginPath();
  pen.arc(x, y, RADIUS, 0, 2 * Math.PI);
  if (colour) {
    Object.assign(pen, { fillStyle: colour, strokeStyle: "black", lineWidth: 1, textAlign: "center" });
    pen.fill();
    pen.stroke();
    pen.fillStyle = "black";
    pen.fillText(label, x, y);
    return;
  }
  for (const [width, style] of [[3, "black"], [1, "white"]]) Object.assign(pen, { lineWidth: width, strokeStyle: style }).stroke();
  Object.assign(pen, { strokeStyle: "black", lineWidth: 2, fillStyle: "white", textAlign: "left" });
  pen.strokeText(label, x + RADIUS + 2, y); // inside the ring it would hide what the ring shows
  pen.fillText(label, x + RADIUS + 2, y);
}

function drawLegend(pen) {
  const [middle, left, width] = [HEIGHT + LEGEND / 2, 82, 120];
  Object.assign(pen, { fillStyle: "black", textAlign: "left" });
  pen.fillText("confidence 0", 10, middle);
  pen.fillText("1    hollow: no match found", left + width + 5, middle);
  for (let column = 0; column < width; column += 1) {
    pen.fillStyle = confidenceColour(column / (width - 1));
    pen.fillRect(left + column, middle - 5, 1, 10);
  }
}
