// The state: images, points, corrections and matches. Every change notifies the listeners; `edit` can be undone.

const UNDO_STEPS = 200;
const EDITED = ["source", "targets", "active", "points", "corrections", "selected", "threshold"]; // what undo restores

export const state = {
  model: null,
  limits: null,
  threshold: null, // confidence below which a point counts as unmatched; null takes the model's own
  source: null, // an image: id, name, width, height, copy, thumbnail
  targets: [], // images
  active: null, // id of the target on display
  points: [], // id, name, x, y on the source
  corrections: {}, // by id of target and point: x, y as the user has put it
  found: {}, // by id of target and point: x, y, confidence, threshold, heatmap, model, and `from`, the x, y on the source
  selected: null, // id of a point
  heat: true, // whether the heat map is on display
  lastId: 0, // of a point
};

const listeners = [];
let past = [];
let future = [];

export const onChange = (listener) => listeners.push(listener);

export function set(changes) {
  Object.assign(state, changes);
  listeners.forEach((listener) => listener());
}

/** Change the state so that it can be undone. Successive changes of one batch are undone together. */
export function edit(changes, batch = null) {
  if (batch === null || past.at(-1)?.batch !== batch) past = [...past.slice(1 - UNDO_STEPS), { batch, values: snapshot() }];
  future = [];
  set(changes);
}

export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;
export const undo = () => step(past, future);
export const redo = () => step(future, past);

function step(from, to) {
  if (!from.length) return;
  to.push({ values: snapshot() });
  set(from.pop().values);
}

const snapshot = () => Object.fromEntries(EDITED.map((key) => [key, state[key]]));

export const activeTarget = () => state.targets.find((target) => target.id === state.active) ?? null;
export const findPoint = (id) => state.points.find((point) => point.id === id);
export const selectedPoint = () => findPoint(state.selected);
export const images = () => (state.source ? [state.source, ...state.targets] : state.targets);

/** Where a point lies on a target: as corrected, or else as the current model found it; undefined if it has not yet. */
export function foundIn(target, point) {
  const correction = state.corrections[target]?.[point.id];
  const match = state.found[target]?.[point.id];
  if (correction) return { ...correction, confidence: 1, matched: true, corrected: true, heatmap: match?.heatmap };
  if (!match || !isCurrent(match, point)) return undefined;
  return { ...match, matched: match.confidence >= (state.threshold ?? match.threshold) };
}

const isCurrent = ({ model, from }, { x, y }) => model === state.model && from.x === x && from.y === y;

/** Points that the current model has not looked for in a target yet. Points corrected by hand are never looked for. */
export const missing = (target) => state.points.filter((point) => !foundIn(target, point));

export function addPoint(x, y) {
  const id = state.lastId + 1;
  state.lastId = id;
  edit({ points: [...state.points, { id, name: freeName(), x, y }], selected: id });
}

function freeName() {
  const taken = new Set(state.points.map((point) => point.name));
  let number = state.points.length + 1;
  while (taken.has(String(number))) number += 1;
  return String(number);
}

export function movePoint(id, x, y) {
  edit({ points: state.points.map((point) => (point.id === id ? { ...point, x, y } : point)), selected: id });
}

export function renamePoint(id, name) {
  edit({ points: state.points.map((point) => (point.id === id ? { ...point, name } : point)) });
}

export function deletePoint(id) {
  const index = state.points.findIndex((point) => point.id === id);
  if (index < 0) return;
  const points = state.points.filter((point) => point.id !== id);
  edit({ points, selected: points[Math.min(index, points.length - 1)]?.id ?? null });
}

export function clearPoints() {
  edit({ points: [], corrections: {}, selected: null });
}

export function correct(target, id, x, y) {
  edit({ corrections: { ...state.corrections, [target]: { ...state.corrections[target], [id]: { x, y } } }, selected: id });
}

export function dropCorrection(target, id) {
  if (!state.corrections[target]?.[id]) return;
  edit({ corrections: { ...state.corrections, [target]: without(state.corrections[target], id) } });
}

/** Add the matches in a response to the cache, which undo leaves as it is. */
export function addMatches(target, points, response) {
  const matches = { ...state.found[target] };
  points.forEach((point, index) => {
    const { target: position, confidence, heatmap } = response.matches[index];
    const { model, threshold } = response;
    matches[point.id] = { x: position[0], y: position[1], confidence, threshold, heatmap, model, from: { x: point.x, y: point.y } };
  });
  set({ found: { ...state.found, [target]: matches } });
}

export const emptySession = { source: null, targets: [], active: null, points: [], corrections: {}, selected: null };

export function removeTarget(id) {
  const index = state.targets.findIndex((target) => target.id === id);
  const targets = state.targets.filter((target) => target.id !== id);
  const active = state.active === id ? (targets[Math.min(index, targets.length - 1)]?.id ?? null) : state.active;
  edit({ targets, active, corrections: without(state.corrections, id) });
}

function without(entries, key) {
  const { [key]: dropped, ...rest } = entries;
  return rest;
}
