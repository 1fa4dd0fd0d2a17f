// Files of points, written from what the page holds, in the formats that the command line reads.

import { foundIn, state } from "./store.js";

const [HIDDEN, VISIBLE] = [1, 2]; // COCO's numbers; a point below the threshold counts as hidden and keeps its place
// What a spreadsheet may take for a formula, with any number of apostrophes before it; a number is not one.
const FORMULA = /^(?!-?\d+(\.\d+)?$)'*(\s*[=+\-@]|[\t\r])/;

export const FILES = {
  coco: { name: "points.coco.json", type: "application/json", write: () => text(toCoco(annotations())) },
  csv: { name: "points.csv", type: "text/csv", write: () => toCsv(annotations()) },
  json: { name: "points.json", type: "application/json", write: () => text({ images: Object.fromEntries(annotations().map((each) => [each.name, toEntry(each)])) }) },
};

const text = (content) => `${JSON.stringify(content, null, 1)}\n`;
const round = (value, digits = 3) => Number(value.toFixed(digits));

/** The images with their points: name, width, height, points. Further images of the same name become `2-name` … */
function annotations() {
  const taken = new Set();
  const sourcePoints = state.points.map(({ name, x, y }) => ({ name, x, y, matched: true }));
  const listed = [[state.source, sourcePoints], ...state.targets.map((target) => [target, pointsOn(target)])];
  return listed
    .filter(([, points]) => points.length)
    .map(([image, points]) => {
      let name = image.name;
      for (let number = 2; taken.has(name); number += 1) name = `${number}-${image.name}`;
      taken.add(name);
      return { name, width: image.width, height: image.height, points: withUniqueNames(points) };
    });
}

function pointsOn(target) {
  return state.points.flatMap((point) => {
    const match = foundIn(target.id, point);
    return match ? [{ name: point.name, x: match.x, y: match.y, confidence: match.confidence, matched: match.matched }] : [];
  });
}

/** Points that the user gave the same name get a number, since the command line refuses such files. */
function withUniqueNames(points) {
  const taken = new Set();
  return points.map((point) => {
    let name = point.name;
    for (let number = 2; taken.has(name); number += 1) name = `${point.name} ${number}`;
    taken.add(name);
    return { ...point, name };
  });
}

const visibility = ({ matched }) => (matched ? VISIBLE : HIDDEN);

function toEntry({ points }) {
  const confidence = points.map((point) => point.confidence);
  return {
    points: points.map(({ x, y }) => [round(x), round(y)]),
    names: points.map(({ name }) => name),
    visibility: points.map(visibility),
    ...(confidence.includes(undefined) ? {} : { confidence: confidence.map((value) => round(value, 4)) }),
  };
}

function toCsv(images) {
  const rows = images.flatMap((image) => image.points.map((point) => [masked(image.name), masked(point.name), round(point.x), round(point.y), visibility(point), point.confidence === undefined ? "" : round(point.confidence, 4)]));
  return [["image", "name", "x", "y", "visibility", "confidence"], ...rows].map((row) => `${row.map(quoted).join(",")}\n`).join("");
}

const masked = (name) => (FORMULA.test(name) ? `'${name}` : name);
const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : String(cell));

function toCoco(images) {
  const names = [...new Set(images.flatMap(({ points }) => points.map(({ name }) => name)))];
  return {
    images: images.map(({ name, width, height }, index) => ({ id: index + 1, file_name: name, width, height })),
    annotations: images.map((image, index) => ({ id: index + 1, image_id: index + 1, category_id: 1, ...toObject(image, names) })),
    categories: [{ id: 1, name: "object", keypoints: names, skeleton: [] }],
  };
}

function toObject({ points }, names) {
  const byName = new Map(points.map((point) => [point.name, point]));
  const span = (values) => [Math.min(...values), Math.max(...values)];
  const [left, right] = span(points.map(({ x }) => x));
  const [top, bottom] = span(points.map(({ y }) => y));
  const triple = (point) => (point ? [round(point.x), round(point.y), visibility(point)] : [0, 0, 0]);
  return {
    keypoints: names.flatMap((name) => triple(byName.get(name))),
    num_keypoints: points.length,
    bbox: [left, top, right - left, bottom - top].map((value) => round(value)),
    area: round((right - left) * (bottom - top)),
    iscrowd: 0,
    ...(points.some(({ confidence }) => confidence === undefined) ? {} : { keypoint_scores: names.map((name) => round(byName.get(name)?.confidence ?? 0, 4)) }),
  };
}
