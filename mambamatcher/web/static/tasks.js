// Asynchronous tasks: upload, match, propagate, download. They report progress and errors to the user.

import * as api from "./api.js";
import { confirmLoss } from "./dialogs.js";
import { FILES } from "./exports.js";
import { save } from "./files.js";
import { hold, release, withImages } from "./images.js";
import * as store from "./store.js";

const { state } = store;
const RECONNECT_SECONDS = 3;

/** Callbacks set by the page: status(text), error(text), where "" hides the last one, and waiting(pane, text) for a note on a pane. */
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
  const images = await reportErrors(async () => {
    const { source, target } = await api.addExample(name);
    return Promise.all([source, target].map(hold));
  });
  notify.waiting("source", "");
  if (!images) return;
  const [source, target] = images;
  store.edit({ ...store.emptySession, source, targets: [target], active: target.id });
  notify.status("Click a point on the source, such as the nose or an ear.");
  await prepare();
}

export async function addSource(file) {
  if (state.points.length && !(await confirmLoss(`The ${count(state.points, "point")} on ${state.source.name} and their matches go with it.`, "Replace the source"))) return;
  const source = await upload(file, "source");
  if (!source) return;
  if (state.source) release(state.source);
  store.edit({ source, points: [], corrections: {}, selected: null });
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
    store.edit({ targets: [...state.targets, image], active: state.active ?? image.id }, files);
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
  const image = await reportErrors(async () => hold(await api.addImage(file, { name: file.name })));
  notify.waiting(pane, "");
  return image;
}

const count = (items, noun) => `${items.length} ${noun}${items.length === 1 ? "" : "s"}`;

export async function removeTarget(id) {
  const target = state.targets.find((each) => each.id === id);
  const points = state.points.filter((point) => store.foundIn(id, point));
  if (points.length && !(await confirmLoss(`${target.name} has ${count(points, "point")}, which go with it.`, "Remove the target"))) return;
  release(target);
  store.removeTarget(id);
}

export async function startOver() {
  const parts = [count(store.images(), "image"), ...(state.points.length ? [count(state.points, "point")] : [])];
  if (!(await confirmLoss(`${parts.join(" and ")} are removed. Undo brings them back until you close the page.`, "Start over"))) return;
  store.images().forEach(release);
  store.edit(store.emptySession);
  notify.status("");
}

/** Encode the pair before the first click, so that the click is answered at once. */
export async function prepare() {
  if (!state.source || !state.active) return;
  if (state.points.length) return matchActive();
  notify.waiting("target", "Preparing the images");
  await reportErrors(() => requestMatches(store.activeTarget(), []));
  notify.waiting("target", "");
}

const requestMatches = (image, points) =>
  withImages([state.source, image], (source, target) =>
    api.matchPair({ source, target, points: points.map(({ x, y }) => [x, y]), model: state.model, heatmaps: true }),
  );

let matching = false;
let reconnecting = null;

/** Match all missing points in the target on display, one request at a time. */
export async function matchActive() {
  if (matching) return;
  matching = true;
  clearTimeout(reconnecting);
  const slow = setTimeout(() => notify.waiting("target", "Matching"), 150);
  try {
    while (state.source && store.activeTarget() && store.missing(state.active).length) await matchIn(store.activeTarget());
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    notify.error(error.message);
    if (!error.status) reconnecting = setTimeout(reconnect, 1000 * RECONNECT_SECONDS);
  } finally {
    clearTimeout(slow);
    notify.waiting("target", "");
    matching = false;
  }
}

async function reconnect() {
  notify.error("");
  await matchActive();
}

async function matchIn(target) {
  const points = store.missing(target.id);
  if (points.length) store.addMatches(target.id, points, await requestMatches(target, points));
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
      await matchIn(target);
      done += 1;
    }
  });
  stopped = true;
  progress(null);
  notify.status(`Propagated ${state.points.length} points to ${done} of ${targets.length} targets.`);
}

export async function download(format) {
  await reportErrors(async () => {
    const { name, type, write } = FILES[format] ?? { name: "matches.png" };
    save(write ? new Blob([write()], { type }) : await drawActive(), name);
    notify.status("Downloaded.");
  });
}

function drawActive() {
  const matches = state.points.flatMap((point) => {
    const match = store.foundIn(state.active, point);
    if (!match) return [];
    return [{ source: [point.x, point.y], target: [match.x, match.y], confidence: match.confidence, matched: match.matched }];
  });
  return withImages([state.source, store.activeTarget()], async (source, target) => (await api.drawPair({ source, target, matches })).blob());
}
