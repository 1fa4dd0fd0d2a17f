// Points as files that the command line reads; the formats are those of mambamatcher/io/points.
// `annotated` is a list of images: name, width, height and points, each with name, x, y, matched and confidence.

const VISIBLE = 2; // COCO's numbers
const ABSENT = 0;
// what a spreadsheet may take for a formula, with any number of apostrophes before it; a number is not one
const FORMULA = /^(?!-?\d+(\.\d+)?$)'*(\s*[=+\-@]|[\t\r])/;

export const WRITERS = { json: toJson, csv: toCsv, coco: toCoco };

const round = (value, digits) => Number(value.toFixed(digits));
const visibility = ({ matched = true }) => (matched ? VISIBLE : ABSENT);
const isSure = ({ points }) => points.every(({ confidence }) => confidence !== undefined); // not points marked by hand
const indented = (content) => `${JSON.stringify(content, null, 1)}\n`;

/** Number images of the same name, so that their points can be told apart. */
function withFreeNames(annotated) {
  const taken = new Set();
  return annotated.map((image) => {
    let name = image.name;
    for (let number = 2; taken.has(name); number += 1) name = `${number}-${image.name}`;
    taken.add(name);
    return { ...image, name };
  });
}

function toJson(annotated) {
  const entry = (image) => ({
    points: image.points.map(({ x, y }) => [round(x, 3), round(y, 3)]),
    names: image.points.map(({ name }) => name),
    visibility: image.points.map(visibility),
    ...(isSure(image) && { confidence: image.points.map(({ confidence }) => round(confidence, 4)) }),
  });
  return indented({ images: Object.fromEntries(withFreeNames(annotated).map((image) => [image.name, entry(image)])) });
}

function toCsv(annotated) {
  const rows = withFreeNames(annotated).flatMap((image) =>
    image.points.map((point) => [masked(image.name), masked(point.name), round(point.x, 3), round(point.y, 3), visibility(point), isSure(image) ? round(point.confidence, 4) : ""]),
  );
  return [["image", "name", "x", "y", "visibility", "confidence"], ...rows].map((row) => `${row.map(quoted).join(",")}\n`).join("");
}

const masked = (text) => (FORMULA.test(text) ? `'${text}` : text);
const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

function toCoco(annotated) {
  const images = withFreeNames(annotated);
  const names = [...new Set(images.flatMap(({ points }) => points.map(({ name }) => name)))];
  return indented({
    images: images.map(({ name, width, height }, index) => ({ id: index + 1, file_name: name, width, height })),
    annotations: images.map((image, index) => ({ id: index + 1, image_id: index + 1, category_id: 1, ...cocoObject(image, names) })),
    categories: [{ id: 1, name: "object", keypoints: names, skeleton: [] }],
  });
}

/** One object: a point that is absent is written (0, 0, 0), as COCO defines, and the box encloses the others. */
function cocoObject(image, names) {
  const byName = new Map(image.points.map((point) => [point.name, point]));
  const labelled = image.points.filter((point) => visibility(point) !== ABSENT);
  const triple = (point) => (labelled.includes(point) ? [round(point.x, 3), round(point.y, 3), visibility(point)] : [0, 0, 0]);
  const [left, top, right, bottom] = [["x", Math.min], ["y", Math.min], ["x", Math.max], ["y", Math.max]].map(([axis, pick]) =>
    labelled.length ? pick(...labelled.map((point) => point[axis])) : 0,
  );
  return {
    keypoints: names.flatMap((name) => triple(byName.get(name))),
    num_keypoints: labelled.length,
    bbox: [left, top, right - left, bottom - top].map((value) => round(value, 3)),
    area: round((right - left) * (bottom - top), 3),
    iscrowd: 0,
    ...(isSure(image) && { keypoint_scores: names.map((name) => round(byName.get(name)?.confidence ?? 0, 4)) }),
  };
}
