// What `mambamatcher serve` answers over the network is answered here by a worker: images never leave the machine.
// The functions are those of the page's api.js that asks a server.

import { drawMatches } from "./drawing.js";

/** Called with a message while the model loads. */
export const waiting = { show: () => {} };
/** Nothing here needs a token. */
export const access = { ask: async () => {} };
export const signIn = async () => {};

const [NOT_FOUND, REFUSED] = [404, 422]; // statuses as the server has them

export class RequestError extends Error {
  constructor(message, status = REFUSED) {
    super(message);
    this.status = status;
  }
}

const MAX_SIDE = 16384; // pixels; browsers cannot read wider images back
const EXAMPLES = { animals: ["cat.jpg", "raccoon.jpg"], people: ["grace-hopper.jpg", "eileen-collins.jpg"] };

const images = new Map(); // by id: file, url, and info: id, name, width, height
const photos = new Map(); // by name, fetched ahead so that the examples also work offline
const unanswered = new Map(); // by id of the message: the functions that settle its promise
const worker = startWorker();
let limits;
let threshold;
let lastId = 0;

/** Start the worker from a blob, because only then the page's content security policy holds in it too. */
function startWorker() {
  const script = new Blob([`import ${JSON.stringify(new URL("./worker.js", import.meta.url).href)};`], { type: "text/javascript" });
  const started = new Worker(URL.createObjectURL(script), { type: "module" });
  started.addEventListener("error", () => {
    for (const id of unanswered.keys()) settle({ id, problem: "The part of this page that matches images could not be started. Reload the page, or try a newer browser." });
  });
  started.addEventListener("message", ({ data }) => ("progress" in data ? showProgress(data.progress) : settle(data)));
  return started;
}

function ask(task, content = {}) {
  const id = ++lastId;
  worker.postMessage({ id, task, ...content });
  return new Promise((resolve, reject) => unanswered.set(id, { resolve, reject }));
}

function settle({ id, result, problem }) {
  const { resolve, reject } = unanswered.get(id);
  unanswered.delete(id);
  if (problem) reject(new RequestError(problem));
  else resolve(result);
}

let shown = -1;

function showProgress(progress) {
  const percent = Math.floor(100 * progress);
  if (progress === "done") waiting.show("The model is ready.");
  else if (percent > shown) waiting.show(`Loading the model: ${(shown = percent)}%`);
}

export async function listModels() {
  const settings = await ask("start");
  limits = settings.limits;
  threshold = settings.calibration.threshold;
  for (const name of Object.values(EXAMPLES).flat()) photos.set(name, fetchPhoto(name));
  return { models: [{ name: settings.name }], limits };
}

async function fetchPhoto(name) {
  const response = await fetch(new URL(`../photos/${name}`, import.meta.url)).catch(() => null);
  return response?.ok ? new File([await response.blob()], name, { type: "image/jpeg" }) : null;
}

export async function addExample(example = "animals") {
  const added = [];
  for (const name of EXAMPLES[example]) {
    const photo = await photos.get(name);
    if (!photo) throw new RequestError(`The photo ${name} could not be loaded. Check the connection and reload the page.`);
    added.push(await addImage(photo));
  }
  return { source: added[0], target: added[1] };
}

export async function addImage(file, { name } = file) {
  const id = crypto.randomUUID(); // never that of an image of an earlier visit, which the page may still hold
  const url = URL.createObjectURL(file);
  try {
    const { width, height } = await readSize(url, name);
    checkSize(width, height, name);
    await ask("add", { image: id, file });
    images.set(id, { file, info: { id, name, width, height }, url });
    return images.get(id).info;
  } catch (error) {
    URL.revokeObjectURL(url);
    throw error;
  }
}

/** An image of an earlier visit is not here; the page then adds it again. */
function imageOf(id) {
  if (!images.has(id)) throw new RequestError("This image is no longer here.", NOT_FOUND);
  return images.get(id);
}

export const fetchImage = async (id) => imageOf(id).file;

/** Refuse an image that is too large before it is decoded. */
function checkSize(width, height, name) {
  const allowed = width * height > limits.picture_pixels ? `the ${limits.picture_pixels / 1e6} million` : Math.max(width, height) > MAX_SIDE ? `the ${MAX_SIDE} on a side` : null;
  if (allowed) throw new RequestError(`${name} has ${width} × ${height} pixels, more than ${allowed} allowed. Make it smaller first.`);
}

/** Return the size of the upright image without decoding it. */
function readSize(url, name) {
  const image = new Image();
  return new Promise((resolve, reject) => {
    image.onload = () => resolve({ width: image.naturalWidth, height: image.naturalHeight });
    image.onerror = () => reject(new RequestError(`${name} is not a readable image. Use JPEG, PNG, WebP, GIF or BMP.`));
    image.src = url;
  });
}

export async function removeImage(id) {
  URL.revokeObjectURL(imageOf(id).url);
  images.delete(id);
  await ask("remove", { image: id });
}

export async function matchPair({ source, target, points, model }) {
  [source, target].forEach(imageOf);
  return { model, threshold, matches: await ask("match", { source, target, points }) };
}

export async function drawPair({ source, target, matches }) {
  const [left, right] = [source, target].map(imageOf).map(({ info, url }) => ({ ...info, url }));
  return new Response(await drawMatches(left, right, matches));
}
