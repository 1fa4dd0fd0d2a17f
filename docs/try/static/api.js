// What `mambamatcher serve` answers over the network is answered here by a worker: images never leave the machine.
// The functions are those of the page's api.js that asks a server.

import { drawMatches } from "./drawing.js";
import { WRITERS } from "./formats.js";

/** Called with a message while the model loads. */
export const waiting = { show: () => {} };
/** Nothing here needs a token. */
export const access = { ask: async () => {} };
export const signIn = async () => {};

export class RequestError extends Error {}

const MAX_SIDE = 16384; // pixels; browsers cannot read wider images back
const EXAMPLES = { animals: ["cat.jpg", "raccoon.jpg"], people: ["grace-hopper.jpg", "eileen-collins.jpg"] };

const images = new Map(); // by id: id, name, width, height, url
const photos = new Map(); // by name, fetched ahead so that the examples also work offline
const unanswered = new Map(); // by id of the message: the functions that settle its promise
const worker = startWorker();
let limits;
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

export async function addImage(file) {
  const id = String(++lastId);
  const url = URL.createObjectURL(file);
  try {
    const { width, height } = await readSize(url, file.name);
    checkSize(width, height, file.name);
    await ask("add", { image: id, file });
    images.set(id, { id, name: file.name, width, height, url });
  } catch (error) {
    URL.revokeObjectURL(url);
    throw error;
  }
  return images.get(id);
}

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

export const imageUrl = (id) => images.get(id).url;

export async function removeImage(id) {
  URL.revokeObjectURL(imageUrl(id));
  images.delete(id);
  await ask("remove", { image: id });
}

export async function matchPair({ source, target, points, model }) {
  const found = await ask("match", { source, target, points });
  return { model, matches: found };
}

export const writePoints = async (format, annotated) =>
  new Response(WRITERS[format](annotated.map(({ picture, points }) => ({ ...images.get(picture), points }))));

export const drawPair = async ({ source, target, matches }) => new Response(await drawMatches(images.get(source), images.get(target), matches));
