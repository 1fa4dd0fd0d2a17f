// The page: renders the state, and changes it in response to user input.

import * as api from "./api.js";
import { confidenceColour } from "./colours.js";
import { askForToken } from "./dialogs.js";
import { droppedFiles, pastedFiles, pickedFiles } from "./files.js";
import { url } from "./images.js";
import * as keeping from "./keeping.js";
import { describe, renderPoints, renderTargets } from "./lists.js";
import { Pane } from "./pane.js";
import * as store from "./store.js";
import * as tasks from "./tasks.js";

const { state } = store;
const find = (selector) => document.querySelector(selector);
const PENDING_COLOUR = "#ffffff"; // of points without a match yet

const select = (id) => store.set({ selected: id });
const announce = (text) => (find("#position").textContent = text);

const panes = {
  source: new Pane(find("#source"), "Source image: arrow keys move a crosshair, Enter marks a point", {
    place: (x, y) => {
      tasks.notify.status("");
      if (state.points.length >= state.limits.points) tasks.notify.error(`There are already ${state.limits.points} points, the most allowed.`);
      else store.addPoint(x, y);
    },
    select,
    move: store.movePoint,
    announce,
  }),
  target: new Pane(find("#target"), "Target image: arrow keys move a crosshair, Enter moves the selected point there", {
    place: (x, y, byKey) => {
      if (byKey && state.selected) store.correct(state.active, state.selected, x, y);
      else if (!byKey) tasks.notify.status("Mark points on the source. Drag a point on the target to correct it.");
    },
    select,
    move: (id, x, y) => store.correct(state.active, id, x, y),
    announce,
  }),
};

function render() {
  const target = store.activeTarget();
  const ready = Boolean(state.source && target);
  panes.source.show(state.source, state.source && url(state.source.copy));
  panes.target.show(target, target && url(target.copy));
  if (state.source) panes.source.showMarkers(state.points.map(sourceMarker));
  if (target) panes.target.showMarkers(state.points.map(targetMarker).filter(Boolean));
  const point = store.selectedPoint();
  const selected = point && store.foundIn(state.active, point);
  panes.target.showHeat(state.heat ? selected?.heatmap : null);

  find("#intro").hidden = find("#steps").hidden = Boolean(state.source || target);
  find("#source .replace").hidden = !state.source;
  find("#target .legend").hidden = !ready;
  find(".tools").hidden = !ready;
  find("#targets").hidden = !target;
  find("#targets .count").textContent = state.targets.length > 1 ? `${state.targets.length} images` : "";
  find("#points").hidden = !state.points.length;
  find("#restart").hidden = !state.source && !target;
  find("#undo").disabled = !store.canUndo();
  find("#redo").disabled = !store.canRedo();
  find("#delete").disabled = !point;
  find("#drop").disabled = !selected?.corrected;
  find("#clear").disabled = !state.points.length;
  find("#heat").checked = state.heat;
  find("#propagate").hidden = state.targets.length < 2;
  find("#propagate").disabled = !state.points.length;
  find("#propagate").textContent = tasks.isPropagating() ? "Stop" : `Propagate to ${state.targets.length} targets`;
  renderThreshold();
  const anyMatch = state.points.some((each) => store.foundIn(state.active, each));
  document.querySelectorAll("#downloads button").forEach((button) => (button.disabled = !anyMatch));
  renderTargets(find(".strip"), { show: (id) => store.set({ active: id }), remove: tasks.removeTarget });
  renderPoints(find("#points tbody"), { select, rename: store.renamePoint, remove: store.deletePoint });
}

/** Show the threshold: the user's own, or else that of the model. */
function renderThreshold() {
  const [match] = Object.values(state.found[state.active] ?? {});
  const threshold = state.threshold ?? match?.threshold;
  find("#threshold").parentElement.hidden = threshold === undefined;
  if (threshold === undefined) return;
  find("#threshold").value = Math.round(100 * threshold);
  find("#threshold-value").textContent = `${Math.round(100 * threshold)}%`;
}

function sourceMarker(point, index) {
  const match = store.foundIn(state.active, point);
  return { ...point, number: index + 1, selected: point.id === state.selected, colour: match ? confidenceColour(match.confidence) : PENDING_COLOUR };
}

function targetMarker(point, index) {
  const match = store.foundIn(state.active, point);
  if (!match) return null;
  const selected = point.id === state.selected;
  return {
    id: point.id,
    number: index + 1,
    x: match.x,
    y: match.y,
    selected,
    colour: confidenceColour(match.confidence),
    hollow: !match.matched,
    corrected: match.corrected,
    tag: selected && !match.corrected ? `${Math.round(100 * match.confidence)}%` : "",
  };
}

let announced = "";

/** Tell screen readers about a new match of the selected point. */
function announceMatch() {
  const point = store.selectedPoint();
  const match = point && store.foundIn(state.active, point);
  const text = match ? `Point ${state.points.indexOf(point) + 1}: ${describe(match)}` : "";
  if (text && text !== announced) announce(text);
  announced = text;
}

function addFiles(section, files) {
  if (!files.length) tasks.notify.error("These files contain no image.");
  else if (section === "target") tasks.addTargets(files);
  else tasks.addSource(files[0]).then(() => files.length > 1 && tasks.addTargets(files.slice(1)));
}

function listenForFiles() {
  for (const [section, id] of [["source", "#source"], ["target", "#target"], ["target", "#targets"]]) {
    const area = find(id);
    area.querySelectorAll("input[type=file]").forEach((input) => input.addEventListener("change", () => addFiles(section, pickedFiles(input))));
    area.addEventListener("dragover", (event) => area.classList.add("over", event.preventDefault()));
    area.addEventListener("dragleave", (event) => area.contains(event.relatedTarget) || area.classList.remove("over"));
    area.addEventListener("drop", async (event) => {
      event.preventDefault();
      event.stopPropagation();
      area.classList.remove("over");
      addFiles(section, await droppedFiles(event.dataTransfer));
    });
  }
  addEventListener("paste", (event) => {
    const files = pastedFiles(event.clipboardData);
    if (files.length) addFiles(state.source ? "target" : "source", files);
  });
  for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault()); // otherwise a drop beside the panes opens the file
}

function listenForTools() {
  const on = (selector, kind, listener) => find(selector).addEventListener(kind, listener);
  document.querySelectorAll(".example").forEach((button) => button.addEventListener("click", () => tasks.loadExample(button.dataset.example)));
  on("#restart", "click", tasks.startOver);
  on("#undo", "click", store.undo);
  on("#redo", "click", store.redo);
  on("#drop", "click", () => store.dropCorrection(state.active, state.selected));
  on("#threshold", "input", (event) => store.edit({ threshold: event.target.value / 100 }, "threshold"));
  on("#delete", "click", () => store.deletePoint(state.selected));
  on("#clear", "click", store.clearPoints);
  on("#heat", "change", (event) => store.set({ heat: event.target.checked }));
  on("#model", "change", (event) => store.set({ model: event.target.value }));
  on("#help", "click", () => find("#keys").showModal());
  on("#problem button", "click", () => (find("#problem").hidden = true));
  on("#propagate", "click", () => (tasks.isPropagating() ? tasks.stopPropagating() : tasks.propagate(renderProgress)));
  on("#downloads", "click", (event) => {
    if (!event.target.dataset.format) return;
    find("#downloads").open = false;
    tasks.download(event.target.dataset.format);
  });
  addEventListener("click", (event) => event.target.closest("#downloads") || (find("#downloads").open = false));
  addEventListener("keydown", handleShortcut);
}

/** Show the fraction of targets done; null hides the bar. */
function renderProgress(fraction) {
  find("#progress").hidden = fraction === null;
  find("#progress").value = fraction ?? 0;
  render();
}

function handleShortcut(event) {
  if (event.target.matches("input[type=text], input[type=password], select") || find("dialog[open]")) return;
  const step = { ",": -1, ".": 1 }[event.key];
  const key = event.key.toLowerCase();
  if ((event.ctrlKey || event.metaKey) && key === "z") event.shiftKey ? store.redo() : store.undo();
  else if ((event.ctrlKey || event.metaKey) && key === "y") store.redo();
  else if (event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "Delete" || event.key === "Backspace") store.deletePoint(state.selected);
  else if (key === "h") store.set({ heat: !state.heat });
  else if (key === "r") store.dropCorrection(state.active, state.selected);
  else if (event.key === "Escape") find("#downloads").open = false;
  else if (step && state.points.length) {
    const index = state.points.findIndex((point) => point.id === state.selected);
    select(state.points[(index + step + state.points.length) % state.points.length].id);
  } else return;
  event.preventDefault();
}

async function start() {
  let hiding;
  tasks.notify.status = (text) => {
    find("#status").textContent = text;
    clearTimeout(hiding);
    hiding = setTimeout(() => (find("#status").textContent = ""), 6000);
  };
  tasks.notify.error = (text) => {
    find("#problem span").textContent = text;
    find("#problem").hidden = !text;
  };
  keeping.report.problem = tasks.notify.error;
  keeping.report.kept = (isKept) => (find("#kept").textContent = isKept && store.images().length ? "Kept in this browser" : "");
  tasks.notify.waiting = (pane, text) => panes[pane].showWaiting(text);
  api.waiting.show = (text) => text && tasks.notify.status(text);
  let signingIn = null; // one dialog for all requests that wait for the token
  api.access.ask = () => (signingIn ??= askForToken().finally(() => (signingIn = null)));

  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname); // keep the secret out of the address bar and the history
    await tasks.reportErrors(() => api.signIn(token));
  }
  const available = await tasks.reportErrors(api.listModels);
  if (!available) return;
  find("#model").replaceChildren(...available.models.map(({ name }) => new Option(name, name)));
  store.onChange(() => {
    render();
    announceMatch();
    tasks.matchActive();
  });
  listenForFiles();
  listenForTools();
  const names = available.models.map(({ name }) => name);
  const restored = await keeping.restore();
  const model = names.includes(restored?.model) ? restored.model : names[0];
  find("#model").value = model;
  find("#model").disabled = false;
  store.set({ ...restored, model, limits: available.limits });
  if (restored?.source) tasks.prepare();
}

start();
