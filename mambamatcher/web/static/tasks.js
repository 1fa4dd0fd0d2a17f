// Asynchronous tasks: upload, match, propagate, download. They report progress and errors to the user.

import * as api from "./api.js";
import { save } from "./files.js";
import * as store from "./store.js";

const { state } = store;

/** Callbacks set by the page: status(text), error(text), and waiting(pane, text) for a note on a pane. */
export const notify = {};

/** Run a task and show a failed request to the user; then return null. */
export async function reportErrors(task) {
  try {
    return await task();
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    notify.error(error.message);
    return null;
  }
}

export async function loadExample(name) {
  notify.waiting("source", "Loading");
  const example = await reportErrors(() => api.addExample(name));
  notify.waiting("source", "");
  if (!example) return;
  store.clearHistory();
  store.set({ source: example.source, targets: [example.target], active: example.target.id, points: [], found: {}, selected: null });
  notify.status("Click a point on the source, such as the nose or an ear.");
  await prepare();
}

export async function addSource(file) {
  const image = await upload(file, "source");
  if (!image) return;
  const old = state.source;
  store.clearHistory();
  store.set({ source: image, points: [], found: {}, selected: null });
  if (old) api.removeImage(old.id).catch(() => {}); // the server evicts it later anyway
  notify.status(state.targets.length ? "Click the source to mark a point." : "Now add a target image.");
  await prepare();
}

export async function addTargets(files) {
  const room = state.limits.targets - state.targets.length;
  if (files.length > room) notify.error(`Only ${room} of ${files.length} images were added: at most ${state.limits.targets} targets are allowed.`);
  let added = 0;
  for (const file of files.slice(0, room)) {
    notify.status(files.length > 1 ? `Adding ${added + 1} of ${files.length}: ${file.name}` : `Adding ${file.name}`);
    const image = await upload(file, "target");
    if (!image) continue;
    added += 1;
    store.set({ targets: [...state.targets, image], active: state.active ?? image.id });
    if (added === 1) prepare();
  }
  notify.status(added ? `Added ${added} ${added === 1 ? "target" : "targets"}.` : "");
}

async function upload(file, pane) {
  if (file.size > state.limits.picture_bytes) {
    notify.error(`${file.name} is larger than the ${Math.round(state.limits.picture_bytes / 2 ** 20)} MB allowed.`);
    return null;
  }
  notify.waiting(pane, "Adding");
  const image = await reportErrors(() => api.addImage(file));
  notify.waiting(pane, "");
  return image;
}

export function removeTarget(id) {
  store.removeTarget(id);
  api.removeImage(id).catch(() => {}); // the server evicts it later anyway
}

export function startOver() {
  for (const image of [state.source, ...state.targets]) if (image) api.removeImage(image.id).catch(() => {});
  store.clearHistory();
  store.set({ source: null, targets: [], active: null, points: [], found: {}, selected: null });
  notify.status("");
}

/** Encode the pair before the first click, so that the click is answered at once. */
async function prepare() {
  if (!state.source || !state.active) return;
  if (state.points.length) return matchActive();
  notify.waiting("target", "Preparing the images");
  await reportErrors(() => requestMatches(state.active, []));
  notify.waiting("target", "");
}

const requestMatches = (target, points) =>
  api.matchPair({
    source: state.source.id,
    target,
    points: points.map(({ x, y }) => [x, y]),
    model: state.model,
    heatmaps: true,
  });

let matching = false;

/** Match all missing points in the target on display, one request at a time. */
export async function matchActive() {
  if (matching) return;
  matching = true;
  const slow = setTimeout(() => notify.waiting("target", "Matching"), 150);
  await reportErrors(async () => {
    while (state.source && state.active && store.missing(state.active).length) await matchIn(state.active);
  });
  clearTimeout(slow);
  notify.waiting("target", "");
  matching = false;
}

async function matchIn(target) {
  const points = store.missing(target);
  if (points.length) store.addMatches(target, points, await requestMatches(target, points));
}

let stopped = true;

export const isPropagating = () => !stopped;

export function stopPropagating() {
  stopped = true;
}

/** Match all points in all targets. `progress` gets the fraction of targets done, and null at the end. */
export async function propagate(progress) {
  stopped = false;
  let done = 0;
  const targets = [...state.targets];
  await reportErrors(async () => {
    for (const target of targets) {
      if (stopped) break;
      progress(done / targets.length);
      notify.status(`Propagating: ${done + 1} of ${targets.length}`);
      await matchIn(target.id);
      done += 1;
    }
  });
  stopped = true;
  progress(null);
  notify.status(`Propagated ${state.points.length} points to ${done} of ${targets.length} targets.`);
}

export async function download(format) {
  await reportErrors(async () => {
    if (format === "image") {
      save(await (await api.drawPair(drawing())).blob(), "matches.png");
    } else {
      const names = { coco: "points.coco.json", csv: "points.csv", json: "points.json" };
      save(await (await api.writePoints(format, annotations())).blob(), names[format]);
    }
    notify.status("Downloaded.");
  });
}

function drawing() {
  const matches = state.points.flatMap((point) => {
    const match = store.foundIn(state.active, point.id);
    if (!match) return [];
    return [{ source: [point.x, point.y], target: [match.x, match.y], confidence: match.confidence, matched: match.matched }];
  });
  return { source: state.source.id, target: state.active, matches };
}

function annotations() {
  const source = state.points.map(({ name, x, y }) => ({ name, x, y }));
  const targets = state.targets.map((target) => ({ picture: target.id, points: namedPoints(target.id) }));
  return [{ picture: state.source.id, points: source }, ...targets.filter(({ points }) => points.length)];
}

function namedPoints(target) {
  return state.points.flatMap(({ id, name }) => {
    const match = store.foundIn(target, id);
    if (!match) return [];
    return [{ name, x: match.x, y: match.y, confidence: match.confidence, matched: match.matched }];
  });
}
