// The review page: shows one target of a run beside a reference, the most doubtful first, and takes corrections.

import * as api from "./api.js";
import { confidenceColour } from "./colours.js";
import { askForToken } from "./dialogs.js";
import { ARROWS, Pane } from "./pane.js";
import * as requests from "./review-api.js";
import { renderImages, renderNames } from "./review-lists.js";
import * as store from "./review-store.js";

const { state } = store;
const find = (selector) => document.querySelector(selector);
const REFERENCE_COLOUR = "#ffffff";
const STEP = 0.01; // of the image's longer side, per press of an arrow key
const POLL_SECONDS = 0.5; // of a round in progress

const select = (name) => store.set({ selected: name });
const panes = {
  reference: new Pane(find("#reference"), "Reference image", { select }, { zoomable: true }),
  target: new Pane(find("#target"), "Target image: arrow keys move the selected point", { select, move: (name, x, y) => store.movePoint(name, x, y) }, { zoomable: true }),
};

function render() {
  const { run } = state;
  const target = store.target();
  const info = store.info();
  const reference = run.references[state.reference];
  panes.reference.show({ id: state.reference, name: reference.name, width: reference.size[0], height: reference.size[1] }, requests.referenceUrl(state.reference));
  panes.reference.showMarkers(reference.points.map(referenceMarker), run.skeleton);
  panes.target.show({ id: state.current, name: info.name, width: target.size[0], height: target.size[1] }, requests.targetUrl(state.current));
  panes.target.showMarkers(run.names.map(targetMarker).filter(Boolean), run.skeleton);

  const readable = run.targets.filter(({ error }) => !error);
  find("#reviewed").textContent = `${readable.filter(store.isReviewed).length} of ${readable.length} reviewed`;
  find("#target .empty").textContent = info.error ?? "";
  find("#target .empty").hidden = !info.error;
  find("#folder").textContent = run.folder;
  find("#other-reference").hidden = run.references.length < 2;
  find("#undo").disabled = !store.canUndo();
  find("#redo").disabled = !store.canRedo();
  find("#accept").disabled = find("#absent").disabled = Boolean(info.error);
  find("#round").disabled = !run.targets.some(({ status }) => status);
  find("#labels").checked = state.labels;
  find("#threshold").value = Math.round(100 * state.threshold);
  find("#threshold-value").textContent = `${Math.round(100 * state.threshold)}%`;
  renderNames(find("#names"), select);
  renderImages(find("#images"), find("#more"), (number) => act(() => show(number)));
}

function referenceMarker({ name, place }) {
  return { ...labels(name), x: place[0], y: place[1], colour: REFERENCE_COLOUR };
}

function targetMarker(name) {
  const { absent, x, y, confidence, matched, corrected } = store.placeOf(name);
  return absent ? null : { ...labels(name), x, y, colour: confidenceColour(confidence), hollow: !matched, corrected };
}

function labels(name) {
  const selected = name === state.selected;
  return { id: name, number: state.run.names.indexOf(name) + 1, selected, label: state.labels || selected ? name : "" };
}

async function show(number) {
  await store.show(number);
  await panes.target.ready; // what is typed before it is seen waits
  const next = nextDoubtful();
  if (next) new Image().src = requests.targetUrl(next.number); // so that it is there when it is shown
}

/** The next target after the current one that is not reviewed; after the last one follows the first. */
function nextDoubtful() {
  const { targets } = state.run;
  const index = targets.indexOf(store.info());
  return [...targets.slice(index + 1), ...targets.slice(0, index)].find((each) => !store.isReviewed(each));
}

async function showNext() {
  const next = nextDoubtful();
  if (next) await show(next.number);
  else notifyStatus("Every target is reviewed.");
}

async function showPrevious() {
  const { targets } = state.run;
  const index = targets.indexOf(store.info());
  if (index > 0) await show(targets[index - 1].number);
}

async function accept() {
  if (!store.info().error) store.accept();
  await showNext();
}

function selectBeside(step) {
  const { names } = state.run;
  select(names[(names.indexOf(state.selected) + step + names.length) % names.length]);
}

function nudge([right, down], isSmall) {
  const { absent, x, y } = store.placeOf(state.selected);
  if (absent) return;
  const [width, height] = store.target().size;
  const step = Math.max(width, height) * STEP * (isSmall ? 0.1 : 1);
  store.movePoint(state.selected, x + step * right, y + step * down, "nudge");
  const moved = store.placeOf(state.selected);
  find("#position").textContent = `${state.selected}: x ${Math.round(moved.x)}, y ${Math.round(moved.y)}`;
}

/** Repeat `propagate` with the corrections, and show the target to correct next. */
async function repeat() {
  find("#round").disabled = true;
  while (!store.isSaved()) await new Promise((resolve) => setTimeout(resolve, 100));
  let round = await requests.startRound();
  while (round.running) {
    find("#progress").hidden = false;
    find("#progress").value = round.done / round.total;
    notifyStatus(round.done ? `Computing again: ${round.done} of ${round.total}` : "Loading the model");
    await new Promise((resolve) => setTimeout(resolve, 1000 * POLL_SECONDS));
    round = await requests.loadRound();
  }
  find("#progress").hidden = true;
  if (round.error) {
    find("#round").disabled = false;
    showProblem(round.error);
    return;
  }
  store.forget();
  await open();
  const next = state.run.next === null ? "" : " This one gains most when it is corrected next.";
  notifyStatus(`Points moved: ${round.moved}, in ${round.changed} of ${round.total} targets. Kept as corrected: ${round.kept}.${next}`);
}

/** Load the run, and show the target whose correction promises most. */
async function open() {
  state.run = await requests.loadRun();
  await store.show(state.run.next ?? state.run.targets[0].number);
}

const COMMANDS = {
  a: accept,
  x: () => store.info().error || store.toggleAbsent(state.selected),
  n: showNext,
  b: showPrevious,
  g: () => state.run.next !== null && show(state.run.next),
  l: () => store.set({ labels: !state.labels }),
  ",": () => selectBeside(-1),
  ".": () => selectBeside(1),
  "+": () => panes.target.zoomBy(1.3),
  "=": () => panes.target.zoomBy(1.3),
  "-": () => panes.target.zoomBy(1 / 1.3),
  0: () => panes.target.resetView(),
};

let acting = Promise.resolve();

/** Carry out one command after the other: what is typed while a target is loaded is meant for that target. */
function act(command) {
  acting = acting.then(() => reportErrors(async () => command()));
}

function handleKey(event) {
  if (find("dialog[open]") || (ARROWS[event.key] && event.target.matches("input[type=range]"))) return;
  const key = event.key.toLowerCase();
  const withControl = event.ctrlKey || event.metaKey;
  if (withControl && key === "z") act(event.shiftKey ? store.redo : store.undo);
  else if (withControl && key === "y") act(store.redo);
  else if (withControl || event.altKey) return;
  else if (ARROWS[event.key]) act(() => nudge(ARROWS[event.key], event.shiftKey));
  else if (COMMANDS[key]) act(COMMANDS[key]);
  else return;
  event.preventDefault();
}

function listen() {
  const on = (selector, kind, listener) => find(selector).addEventListener(kind, listener);
  on("#accept", "click", () => act(accept));
  on("#absent", "click", () => act(COMMANDS.x));
  on("#next", "click", () => act(showNext));
  on("#previous", "click", () => act(showPrevious));
  on("#undo", "click", () => act(store.undo));
  on("#redo", "click", () => act(store.redo));
  on("#labels", "change", COMMANDS.l);
  on("#threshold", "input", (event) => store.set({ threshold: event.target.value / 100 }));
  on("#other-reference", "click", () => store.set({ reference: (state.reference + 1) % state.run.references.length }));
  on("#round", "click", () => reportErrors(repeat));
  on("#help", "click", () => find("#keys").showModal());
  on("#problem button", "click", () => showProblem(""));
  addEventListener("keydown", handleKey);
  addEventListener("beforeunload", (event) => store.isSaved() || event.preventDefault());
}

let hiding;

function notifyStatus(text) {
  find("#status").textContent = text;
  clearTimeout(hiding);
  hiding = setTimeout(() => (find("#status").textContent = ""), 8000);
}

function showProblem(text) {
  find("#problem span").textContent = text;
  find("#problem").hidden = !text;
}

async function reportErrors(task) {
  try {
    return await task();
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    showProblem(error.message);
    return null;
  }
}

async function start() {
  api.waiting.show = (text) => text && notifyStatus(text);
  let signingIn = null; // one dialog for all requests that wait for the token
  api.access.ask = () => (signingIn ??= askForToken().finally(() => (signingIn = null)));
  store.notify.changed = render;
  store.notify.saved = (text) => {
    find("#saved").textContent = text;
    find("#saved").classList.toggle("unsaved", text.startsWith("Not saved"));
  };
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", "/"); // keep the secret out of the address bar and the history
    await reportErrors(() => api.signIn(token));
  }
  await reportErrors(async () => {
    state.run = await requests.loadRun();
    state.threshold = state.run.threshold;
    const worst = state.run.targets.find((target) => !store.isReviewed(target)) ?? state.run.targets[0];
    await store.show(worst.number);
    listen();
    find("#saved").textContent = "";
    document.body.dataset.ready = "";
  });
}

start();
