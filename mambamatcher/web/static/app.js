// The page: draws the state, and turns what the user does into changes of it.

import * as api from "./api.js";
import { confidenceColour } from "./colours.js";
import { droppedFiles, pickedFiles } from "./files.js";
import { describe, showPoints, showTargets } from "./lists.js";
import { Pane } from "./pane.js";
import * as store from "./store.js";
import * as tasks from "./tasks.js";

const { state } = store;
const find = (selector) => document.querySelector(selector);
const PENDING = "#ffffff";

const choose = (id) => store.set({ chosen: id });
const say = (text) => (find("#position").textContent = text);

const panes = {
  source: new Pane(find("#source"), "Source picture: arrow keys move a crosshair, Enter marks a point", {
    place: (x, y) => {
      tasks.tell.status("");
      if (state.points.length >= state.limits.points) tasks.tell.problem(`There are ${state.limits.points} points, as many as are allowed.`);
      else store.addPoint(x, y);
    },
    choose,
    move: store.movePoint,
    say,
  }),
  target: new Pane(find("#target"), "Target picture: arrow keys move a crosshair, Enter puts the chosen point there", {
    place: (x, y, byKey) => {
      if (byKey && state.chosen) store.correct(state.active, state.chosen, x, y);
      else if (!byKey) tasks.tell.status("Mark points on the source; drag those on the target to correct them.");
    },
    choose,
    move: (id, x, y) => store.correct(state.active, id, x, y),
    say,
  }),
};

function show() {
  const target = store.activeTarget();
  const ready = Boolean(state.source && target);
  panes.source.show(state.source, state.source && api.pictureAddress(state.source.id));
  panes.target.show(target, target && api.pictureAddress(target.id));
  if (state.source) panes.source.showMarkers(state.points.map(sourceMarker));
  if (target) panes.target.showMarkers(state.points.map(targetMarker).filter(Boolean));
  const chosen = store.foundIn(state.active, state.chosen);
  panes.target.showHeat(state.heat && store.findPoint(state.chosen) ? chosen?.heatmap : null);

  find("#intro").hidden = find("#steps").hidden = Boolean(state.source || target);
  find("#source .replace").hidden = !state.source;
  find("#target .legend").hidden = !ready;
  find(".tools").hidden = !ready;
  find("#targets").hidden = !target;
  find("#targets .count").textContent = state.targets.length > 1 ? `${state.targets.length} pictures` : "";
  find("#points").hidden = !state.points.length;
  find("#restart").hidden = !state.source && !target;
  find("#undo").disabled = !store.canUndo();
  find("#delete").disabled = !store.findPoint(state.chosen);
  find("#clear").disabled = !state.points.length;
  find("#heat").checked = state.heat;
  find("#propagate").hidden = state.targets.length < 2;
  find("#propagate").disabled = !state.points.length;
  find("#propagate").textContent = tasks.isPropagating() ? "Stop" : `Propagate to ${state.targets.length} targets`;
  const somethingFound = state.points.some((point) => store.foundIn(state.active, point.id));
  document.querySelectorAll("#downloads button").forEach((button) => (button.disabled = !somethingFound));
  showTargets(find(".strip"), { choose: (id) => store.set({ active: id }), remove: tasks.removeTarget });
  showPoints(find("#points tbody"), { choose, rename: store.renamePoint, remove: store.deletePoint });
}

function sourceMarker(point, index) {
  const match = store.foundIn(state.active, point.id);
  return { ...point, number: index + 1, chosen: point.id === state.chosen, colour: match ? confidenceColour(match.confidence) : PENDING };
}

function targetMarker(point, index) {
  const match = store.foundIn(state.active, point.id);
  if (!match) return null;
  const chosen = point.id === state.chosen;
  return {
    id: point.id,
    number: index + 1,
    x: match.x,
    y: match.y,
    chosen,
    colour: confidenceColour(match.confidence),
    hollow: !match.matched,
    corrected: match.corrected,
    tag: chosen && !match.corrected ? `${Math.round(100 * match.confidence)}%` : "",
  };
}

let announced = null;

function announce() {
  const match = store.foundIn(state.active, state.chosen);
  const index = state.points.findIndex((point) => point.id === state.chosen);
  if (!match || index < 0 || match === announced) return;
  announced = match;
  say(`Point ${index + 1}: ${describe(match)}`);
}

function take(section, files) {
  if (!files.length) tasks.tell.problem("There is no picture among these files.");
  else if (section === "target") tasks.addTargets(files);
  else tasks.addSource(files[0]).then(() => files.length > 1 && tasks.addTargets(files.slice(1)));
}

function listenForFiles() {
  for (const [section, id] of [["source", "#source"], ["target", "#target"], ["target", "#targets"]]) {
    const area = find(id);
    area.querySelectorAll("input[type=file]").forEach((input) => input.addEventListener("change", () => take(section, pickedFiles(input))));
    area.addEventListener("dragover", (event) => area.classList.add("over", event.preventDefault()));
    area.addEventListener("dragleave", (event) => area.contains(event.relatedTarget) || area.classList.remove("over"));
    area.addEventListener("drop", async (event) => {
      event.preventDefault();
      event.stopPropagation();
      area.classList.remove("over");
      take(section, await droppedFiles(event.dataTransfer));
    });
  }
  for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault()); // else a miss opens the file
}

function listenForTools() {
  const on = (selector, kind, listener) => find(selector).addEventListener(kind, listener);
  on("#example", "click", tasks.loadExample);
  on("#restart", "click", tasks.startOver);
  on("#undo", "click", store.undo);
  on("#delete", "click", () => store.deletePoint(state.chosen));
  on("#clear", "click", store.clearPoints);
  on("#heat", "change", (event) => store.set({ heat: event.target.checked }));
  on("#model", "change", (event) => store.set({ model: event.target.value }));
  on("#help", "click", () => find("#keys").showModal());
  on("#problem button", "click", () => (find("#problem").hidden = true));
  on("#propagate", "click", () => (tasks.isPropagating() ? tasks.stopPropagating() : tasks.propagate(showProgress)));
  on("#downloads", "click", (event) => {
    if (!event.target.dataset.format) return;
    find("#downloads").open = false;
    tasks.download(event.target.dataset.format);
  });
  addEventListener("click", (event) => event.target.closest("#downloads") || (find("#downloads").open = false));
  addEventListener("keydown", shortcut);
}

function showProgress(part) {
  find("#progress").hidden = part === null;
  find("#progress").value = part ?? 0;
  show();
}

function shortcut(event) {
  if (event.target.matches("input[type=text], input[type=password], select") || find("dialog[open]")) return;
  const step = { ",": -1, ".": 1 }[event.key];
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") store.undo();
  else if (event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "Delete" || event.key === "Backspace") store.deletePoint(state.chosen);
  else if (event.key.toLowerCase() === "h") store.set({ heat: !state.heat });
  else if (event.key === "Escape") find("#downloads").open = false;
  else if (step && state.points.length) {
    const index = state.points.findIndex((point) => point.id === state.chosen);
    choose(state.points[(index + step + state.points.length) % state.points.length].id);
  } else return;
  event.preventDefault();
}

function askForToken() {
  const dialog = find("#signin");
  const wrong = dialog.querySelector(".wrong");
  return new Promise((resolve) => {
    dialog.addEventListener("close", async function retry() {
      try {
        await api.signIn(find("#token").value);
        dialog.removeEventListener("close", retry);
        resolve();
      } catch (error) {
        wrong.textContent = error.message;
        dialog.showModal();
      }
    });
    dialog.showModal();
  });
}

async function start() {
  let away;
  tasks.tell.status = (text) => {
    find("#status").textContent = text;
    clearTimeout(away);
    away = setTimeout(() => (find("#status").textContent = ""), 6000);
  };
  tasks.tell.problem = (text) => {
    find("#problem span").textContent = text;
    find("#problem").hidden = false;
  };
  tasks.tell.waiting = (pane, text) => panes[pane].showWait(text);
  api.waiting.tell = (text) => text && tasks.tell.status(text);
  let asking = null;
  api.access.ask = () => (asking ??= askForToken().finally(() => (asking = null)));

  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", "/"); // the secret does not stay in the address bar
    await tasks.guarded(() => api.signIn(token));
  }
  const known = await tasks.guarded(api.listModels);
  if (!known) return;
  find("#model").replaceChildren(...known.models.map(({ name }) => new Option(name, name)));
  find("#model").disabled = false;
  store.onChange(() => {
    show();
    announce();
    tasks.matchActive();
  });
  listenForFiles();
  listenForTools();
  store.set({ model: known.models[0].name, limits: known.limits });
}

start();
