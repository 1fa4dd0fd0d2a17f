// The state: images, points and matches. Every change notifies the listeners; changes by `edit` can be undone.

const UNDO_STEPS = 100;

export const state = {
  model: null,
  limits: null,
  source: null, // an image: id, name, width, height
  targets: [], // images
  active: null, // id of the target on display
  points: [], // id, name, x, y on the source
  found: {}, // by id of target and point: x, y, confidence, matched, heatmap, model, corrected
  selected: null, // id of a point
  heat: true, // whether the heat map is on display
};

const listeners = [];
let history = [];
let lastId = 0;

export const onChange = (listener) => listeners.push(listener);

export function set(changes) {
  Object.assign(state, changes);
  listeners.forEach((listener) => listener());
}

export function edit(changes) {
  history = [...history.slice(1 - UNDO_STEPS), { points: state.points, found: state.found, selected: state.selected }];
  set(changes);
}

export const canUndo = () => history.length > 0;

export function undo() {
  if (history.length) set(history.pop());
}

export function clearHistory() {
  history = [];
}

export const activeTarget = () => state.targets.find((target) => target.id === state.active) ?? null;
export const foundIn = (target, point) => state.found[target]?.[point];
export const findPoint = (id) => state.points.find((point) => point.id === id);

export function addPoint(x, y) {
  const id = ++lastId;
  edit({ points: [...state.points, { id, name: freeName(), x, y }], selected: id });
}

function freeName() {
  const taken = new Set(state.points.map((point) => point.name));
  let number = state.points.length + 1;
  while (taken.has(String(number))) number += 1;
  return String(number);
}

export function movePoint(id, x, y) {
  const points = state.points.map((point) => (point.id === id ? { ...point, x, y } : point));
  const found = Object.fromEntries(
    Object.entries(state.found).map(([target, matches]) => [target, without(matches, id)]),
  );
  edit({ points, found, selected: id });
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
  edit({ points: [], found: {}, selected: null });
}

export function correct(target, id, x, y) {
  const match = { heatmap: null, ...foundIn(target, id), x, y, confidence: 1, matched: true, corrected: true };
  edit({ found: { ...state.found, [target]: { ...state.found[target], [id]: match } }, selected: id });
}

/** Points that the current model has not looked for in a target yet. Points corrected by hand are never looked for. */
export function missing(target) {
  return state.points.filter((point) => {
    const match = foundIn(target, point.id);
    return !match || (!match.corrected && match.model !== state.model);
  });
}

/** Add the matches in a response. Points that were moved, deleted or corrected since the request are skipped. */
export function addMatches(target, points, response) {
  const matches = { ...state.found[target] };
  points.forEach((point, index) => {
    if (!state.points.includes(point) || matches[point.id]?.corrected) return;
    const { target: position, confidence, matched, heatmap } = response.matches[index];
    matches[point.id] = { x: position[0], y: position[1], confidence, matched, heatmap, model: response.model };
  });
  set({ found: { ...state.found, [target]: matches } });
}

export function removeTarget(id) {
  const targets = state.targets.filter((target) => target.id !== id);
  const active = state.active === id ? (targets[0]?.id ?? null) : state.active;
  set({ targets, active, found: without(state.found, id) });
}

function without(entries, key) {
  const { [key]: dropped, ...rest } = entries;
  return rest;
}
