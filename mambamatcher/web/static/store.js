// What is known: pictures, points and where they were found. Only `edit` can be undone; everything tells the listeners.

const STEPS = 100;

export const state = {
  model: null,
  limits: null,
  source: null, // a picture: id, name, width, height
  targets: [],
  active: null, // the id of the target that is shown
  points: [], // id, name, x, y on the source
  found: {}, // by target and point: x, y, confidence, matched, heatmap, model, corrected
  chosen: null, // the id of a point
  heat: true,
};

const listeners = [];
let past = [];
let lastId = 0;

export const onChange = (listener) => listeners.push(listener);

export function set(changes) {
  Object.assign(state, changes);
  listeners.forEach((listener) => listener());
}

export function edit(changes) {
  past = [...past.slice(1 - STEPS), { points: state.points, found: state.found, chosen: state.chosen }];
  set(changes);
}

export const canUndo = () => past.length > 0;

export function undo() {
  if (past.length) set(past.pop());
}

export function forgetPast() {
  past = [];
}

export const activeTarget = () => state.targets.find((target) => target.id === state.active) ?? null;
export const foundIn = (target, point) => state.found[target]?.[point];
export const findPoint = (id) => state.points.find((point) => point.id === id);

export function addPoint(x, y) {
  const id = ++lastId;
  edit({ points: [...state.points, { id, name: freeName(), x, y }], chosen: id });
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
  edit({ points, found, chosen: id });
}

export function renamePoint(id, name) {
  edit({ points: state.points.map((point) => (point.id === id ? { ...point, name } : point)) });
}

export function deletePoint(id) {
  const index = state.points.findIndex((point) => point.id === id);
  if (index < 0) return;
  const points = state.points.filter((point) => point.id !== id);
  edit({ points, chosen: points[Math.min(index, points.length - 1)]?.id ?? null });
}

export function clearPoints() {
  edit({ points: [], found: {}, chosen: null });
}

export function correct(target, id, x, y) {
  const match = { heatmap: null, ...foundIn(target, id), x, y, confidence: 1, matched: true, corrected: true };
  edit({ found: { ...state.found, [target]: { ...state.found[target], [id]: match } }, chosen: id });
}

/** Points not yet looked for in a target by the current model. What was corrected by hand stays. */
export function missing(target) {
  return state.points.filter((point) => {
    const match = foundIn(target, point.id);
    return !match || (!match.corrected && match.model !== state.model);
  });
}

/** Keep what the server found for points that are still where they were when it was asked. */
export function keepMatches(target, points, answer) {
  const matches = { ...state.found[target] };
  points.forEach((point, index) => {
    if (!state.points.includes(point) || matches[point.id]?.corrected) return;
    const { target: place, confidence, matched, heatmap } = answer.matches[index];
    matches[point.id] = { x: place[0], y: place[1], confidence, matched, heatmap, model: answer.model };
  });
  set({ found: { ...state.found, [target]: matches } });
}

export function dropTarget(id) {
  const targets = state.targets.filter((target) => target.id !== id);
  const active = state.active === id ? (targets[0]?.id ?? null) : state.active;
  set({ targets, active, found: without(state.found, id) });
}

function without(entries, key) {
  const { [key]: dropped, ...rest } = entries;
  return rest;
}
