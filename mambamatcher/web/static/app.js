// The page: renders the state, and changes it in response to user input.

import * as api from "./api.js";
import { confidenceColour } from "./colours.js";
import { droppedFiles, pastedFiles, pickedFiles } from "./files.js";
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
  panes.source.show(state.source, state.source && api.imageUrl(state.source.id));
  panes.target.show(target, target && api.imageUrl(target.id));
  if (state.source) panes.source.showMarkers(state.points.map(sourceMarker));
  if (target) panes.target.showMarkers(state.points.map(targetMarker).filter(Boolean));
  const selected = store.foundIn(state.active, state.selected);
  panes.target.showHeat(state.heat && store.findPoint(state.selected) ? selected?.heatmap : null);

  find("#intro").hidden = find("#steps").hidden = Boolean(state.source || target);
  find("#source .replace").hidden = !state.source;
  find("#target .legend").hidden = !ready;
  find(".tools").hidden = !ready;
  find("#targets").hidden = !target;
  find("#targets .count").textContent = state.targets.length > 1 ? `${state.targets.length} images` : "";
  find("#points").hidden = !state.points.length;
  find("#restart").hidden = !state.source && !target;
  find("#undo").disabled = !store.canUndo();
  find("#delete").disabled = !store.findPoint(state.selected);
  find("#clear").disabled = !state.points.length;
  find("#heat").checked = state.heat;
  find("#propagate").hidden = state.targets.length < 2;
  find("#propagate").disabled = !state.points.length;
  find("#propagate").textContent = tasks.isPropagating() ? "Stop" : `Propagate to ${state.targets.length} targets`;
  const anyMatch = state.points.some((point) => store.foundIn(state.active, point.id));
  document.querySelectorAll("#downloads button").forEach((button) => (button.disabled = !anyMatch));
  renderTargets(find(".strip"), { show: (id) => store.set({ active: id }), remove: tasks.removeTarget });
  renderPoints(find("#points tbody"), { select, rename: store.renamePoint, remove: store.deletePoint });
}

function sourceMarker(point, index) {
  const match = store.foundIn(state.active, point.id);
  return { ...point, number: index + 1, selected: point.id === state.selected, colour: match ? confidenceColour(match.confidence) : PENDING_COLOUR };
}

function targetMarker(point, index) {
  const match = store.foundIn(state.active, point.id);
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

let announced = null;

/** Tell screen readers about a new match of the selected point. */
function announceMatch() {
  const match = store.foundIn(state.active, state.selected);
  const index = state.points.findIndex((point) => point.id === state.selected);
  if (!match || index < 0 || match === announced) return;
  announced = match;
  announce(`Point ${index + 1}: ${describe(match)}`);
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
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") store.undo();
  else if (event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "Delete" || event.key === "Backspace") store.deletePoint(state.selected);
  else if (event.key.toLowerCase() === "h") store.set({ heat: !state.heat });
  else if (event.key === "Escape") find("#downloads").open = false;
  else if (step && state.points.length) {
    const index = state.points.findIndex((point) => point.id === state.selected);
    select(state.points[(index + step + state.points.length) % state.points.length].id);
  } else return;
  event.preventDefault();
}

function askForToken() {
  const dialog = find("#signin");
  const message = dialog.querySelector(".wrong");
  return new Promise((resolve) => {
    dialog.addEventListener("close", async function retry() {
      try {
        await api.signIn(find("#token").value);
        dialog.removeEventListener("close", retry);
        resolve();
      } catch (error) {
        message.textContent = error.message;
        dialog.showModal();
      }
    });
    dialog.showModal();
  });
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
    find("#problem").hidden = false;
  };
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
  find("#model").disabled = false;
  store.onChange(() => {
    render();
    announceMatch();
    tasks.matchActive();
  });
  listenForFiles();
  listenForTools();
  store.set({ model: available.models[0].name, limits: available.limits });
}

start();
