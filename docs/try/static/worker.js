// Decodes and matches images beside the page, which stays responsive meanwhile. A message {id, task, ...} is answered by
// {id, result} or {id, problem}; {progress} comes while the model loads.

import { Model, loadSettings } from "./model.js";
import { findPoint } from "./readout.js";
import { resizeToSquare } from "./resample.js";

const BAND_PIXELS = 2 ** 21; // read at a time from a decoded image
const KEPT = 24; // encoded images, 3 MB each

const images = new Map(); // by id: width, height, and RGB bytes of the model's size
const encoded = new Map(); // features by image, the one used last at the end
let settings;
let loading; // the model, when it has arrived
let matching = Promise.resolve();

const tasks = {
  /** Start to load the model, and return the settings at once. */
  async start() {
    settings = await loadSettings();
    loading = Model.load(settings, (progress) => postMessage({ progress }));
    loading.then(() => postMessage({ progress: "done" })).catch(() => {}); // the first match reports a failure
    return settings;
  },

  async add({ image, file }) {
    const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none" }).catch(() => null); // as Pillow: profiles are ignored
    if (!bitmap) throw new Error(`${file.name} is not a readable image. Use JPEG, PNG, WebP, GIF or BMP.`);
    const { width, height } = bitmap;
    images.set(image, { width, height, pixels: resizeToSquare(rowsOf(bitmap), width, height, settings.side, settings.reducing_gap) });
    bitmap.close();
  },

  /** Find points, in pixels of the source, one pair at a time. Images removed meanwhile are still matched. */
  match({ source, target, points }) {
    const pair = [images.get(source), images.get(target)];
    const result = matching.then(() => match(pair, points));
    matching = result.catch(() => {});
    return result;
  },

  remove({ image }) {
    encoded.delete(images.get(image));
    images.delete(image);
  },
};

addEventListener("message", async ({ data }) => {
  try {
    postMessage({ id: data.id, result: await tasks[data.task](data) });
  } catch (error) {
    postMessage({ id: data.id, problem: error.message });
  }
});

/** Return a function that reads rows of a decoded image as RGBA bytes; what is transparent becomes white. */
function rowsOf(bitmap) {
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, Math.min(height, Math.ceil(BAND_PIXELS / width)));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  let band = { top: 0, rows: 0 };
  return (top, count) => {
    if (top + count > band.top + band.rows) {
      context.fillStyle = "white";
      context.fillRect(0, 0, width, canvas.height);
      context.drawImage(bitmap, 0, -top);
      band = { top, rows: canvas.height, bytes: context.getImageData(0, 0, width, canvas.height).data };
    }
    return band.bytes.subarray(4 * width * (top - band.top), 4 * width * (top - band.top + count));
  };
}

async function match([source, target], points) {
  const model = await loading;
  const pair = [await encode(source, model), await encode(target, model)];
  return points.map(([x, y]) => {
    const unit = { x: (2 * x) / source.width - 1, y: (2 * y) / source.height - 1 };
    const { found, confidence, heat } = findPoint(unit, ...pair, model.head, settings);
    return {
      target: [((found.x + 1) * target.width) / 2, ((found.y + 1) * target.height) / 2],
      confidence,
      matched: confidence >= settings.calibration.threshold,
      heatmap: { rows: pair[1].rows, columns: pair[1].columns, values: btoa(String.fromCharCode(...heat)) },
    };
  });
}

async function encode(image, model) {
  const features = encoded.get(image) ?? (await model.encode(image.pixels));
  encoded.delete(image);
  encoded.set(image, features);
  if (encoded.size > KEPT) encoded.delete(encoded.keys().next().value);
  return features;
}
