// The state of the review page. Every change of a correction can be undone and is saved by the server at once.

import { loadTarget, saveCorrection } from "./review-api.js";

const UNDO_STEPS = 500;
const RETRY_SECONDS = 3;

export const state = {
  run: null, // names, skeleton, threshold, references, and targets: number, name, doubt, error, status, corrected
  current: null, // the number of the target on display
  reference: 0, // index of the reference on display
  selected: null, // the name of a point
  labels: true, // whether names are on display
  threshold: 0,
};
const loaded = new Map(); // by number: size, points, correction
let past = [];
let future = [];
const unsaved = new Map(); // corrections by number of their target
let saving = false;

/** Callbacks set by the page: changed(), saved(text) */
export const notify = {};

export function set(changes) {
  Object.assign(state, changes);
  notify.changed();
}

export const target = () => loaded.get(state.current);
export const info = (number = state.current) => state.run.targets.find((each) => each.number === number);
export const isReviewed = ({ corrected, error }) => Boolean(error) || corrected >= state.run.names.length;

/** Where a point lies on the target on display: x, y, confidence, matched, corrected; or absent. */
export function placeOf(name) {
  const { points, correction } = target();
  const corrected = correction?.points.get(name);
  if (corrected === null) return { absent: true, corrected: true };
  if (corrected) return { x: corrected[0], y: corrected[1], confidence: 1, matched: true, corrected: true };
  const found = points.get(name);
  return found ? { ...found, matched: found.confidence >= state.threshold } : { absent: true };
}

/** Show a target and select its most doubtful point. */
export async function show(number) {
  if (!loaded.has(number)) loaded.set(number, await loadTarget(number));
  state.current = number;
  set({ selected: mostDoubtful() });
}

/** Drop what was loaded, after a round. */
export function forget() {
  loaded.clear();
  past = [];
  future = [];
}

function mostDoubtful() {
  const doubt = (name) => placeOf(name).confidence ?? 2;
  return state.run.names.reduce((worst, name) => (doubt(name) < doubt(worst) ? name : worst));
}

export function movePoint(name, x, y, batch = null) {
  const [width, height] = target().size;
  const place = [Math.min(width, Math.max(0, x)), Math.min(height, Math.max(0, y))];
  correct("corrected", new Map([...(target().correction?.points ?? []), [name, place]]), batch && `${batch} ${name}`);
}

/** Say that a point is absent from the target, or that it is not: then it is where it was found, or in the middle. */
export function toggleAbsent(name) {
  const { size, points: found, correction } = target();
  const points = new Map(correction?.points ?? []);
  if (!placeOf(name).absent) points.set(name, null);
  else if (found.has(name)) points.delete(name);
  else points.set(name, [size[0] / 2, size[1] / 2]);
  correct("corrected", points);
}

/** Take all points as they are on display. */
export function accept() {
  const status = target().correction?.status ?? "accepted";
  const places = state.run.names.map((name) => [name, placeOf(name)]);
  correct(status, new Map(places.map(([name, { absent, x, y }]) => [name, absent ? null : [x, y]])));
}

function correct(status, points, batch = null) {
  const number = state.current;
  const joins = batch !== null && past.at(-1)?.batch === batch && past.at(-1).number === number;
  if (!joins) past = [...past.slice(1 - UNDO_STEPS), { number, correction: target().correction, batch }];
  future = [];
  change(number, points.size ? { status, points } : null);
}

export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;
export const undo = () => step(past, future);
export const redo = () => step(future, past);

async function step(from, to) {
  if (!from.length) return;
  const { number, correction } = from.pop();
  if (!loaded.has(number)) loaded.set(number, await loadTarget(number));
  to.push({ number, correction: loaded.get(number).correction });
  state.current = number;
  change(number, correction);
}

function change(number, correction) {
  loaded.get(number).correction = correction;
  Object.assign(info(number), { status: correction?.status ?? null, corrected: correction?.points.size ?? 0 });
  unsaved.set(number, correction);
  set({});
  save();
}

/** Send changes one after the other; of one target only the latest. Repeated until the server has them. */
export async function save() {
  if (saving) return;
  saving = true;
  while (unsaved.size) {
    notify.saved("Saving…");
    const [number, correction] = unsaved.entries().next().value;
    try {
      await saveCorrection(number, correction);
      if (unsaved.get(number) === correction) unsaved.delete(number);
    } catch (error) {
      notify.saved(`Not saved: ${error.message}`);
      if (error.status && error.status < 500) unsaved.delete(number); // the server will never take it
      await new Promise((resolve) => setTimeout(resolve, 1000 * RETRY_SECONDS));
      continue;
    }
    notify.saved("Saved");
  }
  saving = false;
}

export const isSaved = () => !unsaved.size;
