// What takes a moment: uploading, matching, propagating, downloading. Each says what it does and what went wrong.

import * as api from "./api.js";
import { save } from "./files.js";
import * as store from "./store.js";

const { state } = store;

/** Set by the page: status(text) and problem(text) for the user, waiting(pane, text) for a picture. */
export const tell = {};

export async function guarded(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof api.Problem)) throw error;
    tell.problem(error.message);
    return null;
  }
}

export async function loadExample() {
  tell.waiting("source", "Loading");
  const example = await guarded(api.addExample);
  tell.waiting("source", "");
  if (!example) return;
  store.forgetPast();
  store.set({ source: example.source, targets: [example.target], active: example.target.id, points: [], found: {}, chosen: null });
  tell.status("Click the source: the nose, an ear, a paw.");
  await prepare();
}

export async function addSource(file) {
  const picture = await upload(file, "source");
  if (!picture) return;
  const old = state.source;
  store.forgetPast();
  store.set({ source: picture, points: [], found: {}, chosen: null });
  if (old) api.removePicture(old.id).catch(() => {}); // it goes by itself in time
  tell.status(state.targets.length ? "Click the source to mark a point." : "Now add a target.");
  await prepare();
}

export async function addTargets(files) {
  const room = state.limits.targets - state.targets.length;
  if (files.length > room) tell.problem(`Only ${room} of ${files.length} pictures were added; ${state.limits.targets} is the most.`);
  let added = 0;
  for (const file of files.slice(0, room)) {
    tell.status(files.length > 1 ? `Reading ${added + 1} of ${files.length}: ${file.name}` : `Reading ${file.name}`);
    const picture = await upload(file, "target");
    if (!picture) continue;
    added += 1;
    store.set({ targets: [...state.targets, picture], active: state.active ?? picture.id });
    if (added === 1) prepare();
  }
  tell.status(added ? `Added ${added} ${added === 1 ? "target" : "targets"}.` : "");
}

async function upload(file, pane) {
  if (file.size > state.limits.picture_bytes) {
    tell.problem(`${file.name} is larger than the ${Math.round(state.limits.picture_bytes / 2 ** 20)} MB allowed.`);
    return null;
  }
  tell.waiting(pane, "Reading the picture");
  const picture = await guarded(() => api.addPicture(file));
  tell.waiting(pane, "");
  return picture;
}

export function removeTarget(id) {
  store.dropTarget(id);
  api.removePicture(id).catch(() => {}); // it goes by itself in time
}

export function startOver() {
  for (const picture of [state.source, ...state.targets]) if (picture) api.removePicture(picture.id).catch(() => {});
  store.forgetPast();
  store.set({ source: null, targets: [], active: null, points: [], found: {}, chosen: null });
  tell.status("");
}

/** Compare the pair before the first click, so that the click is answered at once. */
async function prepare() {
  if (!state.source || !state.active) return;
  if (state.points.length) return matchActive();
  tell.waiting("target", "Comparing the pictures");
  await guarded(() => ask(state.active, []));
  tell.waiting("target", "");
}

const ask = (target, points) =>
  api.matchPair({
    source: state.source.id,
    target,
    points: points.map(({ x, y }) => [x, y]),
    model: state.model,
    heatmaps: true,
  });

let matching = false;

/** Look in the shown target for every point not looked for yet; one request at a time, until none is left. */
export async function matchActive() {
  if (matching) return;
  matching = true;
  const slow = setTimeout(() => tell.waiting("target", "Looking"), 150);
  await guarded(async () => {
    while (state.source && state.active && store.missing(state.active).length) await matchIn(state.active);
  });
  clearTimeout(slow);
  tell.waiting("target", "");
  matching = false;
}

async function matchIn(target) {
  const points = store.missing(target);
  if (points.length) store.keepMatches(target, points, await ask(target, points));
}

let stopped = true;

export const isPropagating = () => !stopped;

export function stopPropagating() {
  stopped = true;
}

export async function propagate(progress) {
  stopped = false;
  let done = 0;
  const targets = [...state.targets];
  await guarded(async () => {
    for (const target of targets) {
      if (stopped) break;
      progress(done / targets.length);
      tell.status(`Propagating: ${done + 1} of ${targets.length}`);
      await matchIn(target.id);
      done += 1;
    }
  });
  stopped = true;
  progress(null);
  tell.status(`${state.points.length} points in ${done} of ${targets.length} targets.`);
}

export async function download(format) {
  await guarded(async () => {
    if (format === "picture") {
      save(await (await api.drawPair(drawing())).blob(), "matches.png");
    } else {
      const names = { coco: "points.coco.json", csv: "points.csv", json: "points.json" };
      save(await (await api.writePoints(format, annotated())).blob(), names[format]);
    }
    tell.status("Downloaded.");
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

function annotated() {
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
