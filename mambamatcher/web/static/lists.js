// The strip of targets, which is updated, and the table of points, which is rebuilt on every change; the focus is kept.

import { confidenceColour } from "./colours.js";
import { url } from "./images.js";
import { build } from "./pane.js";
import { foundIn, state } from "./store.js";

export const percent = (match) => `${Math.round(100 * match.confidence)}%`;
export const describe = (match) => (match.corrected ? "corrected" : match.matched ? percent(match) : `${percent(match)}, no match`);

const items = new Map(); // elements of the strip, by the target's id

/** Update the strip; of hundreds of targets only those that changed, so that a click stays quick. */
export function renderTargets(strip, { show, remove }) {
  const wanted = state.targets.map((target) => items.get(target.id) ?? buildItem(target, show, remove));
  if (wanted.length !== strip.children.length || wanted.some((item, index) => strip.children[index] !== item)) {
    keepFocus(strip, () => strip.replaceChildren(...wanted));
    items.clear();
    state.targets.forEach((target, index) => items.set(target.id, wanted[index]));
  }
  for (const target of state.targets) updateItem(items.get(target.id), target.id);
}

function buildItem(target, show, remove) {
  const item = build("li", {});
  const thumb = build("button", { type: "button", class: "thumb", "data-key": `show-${target.id}` });
  thumb.append(build("img", { alt: "", loading: "lazy", src: url(target.thumbnail) }), build("span", { class: "caption" }));
  thumb.lastChild.textContent = target.name;
  thumb.addEventListener("click", () => show(target.id));
  const removal = build("button", { type: "button", class: "remove", "aria-label": `Remove ${target.name}`, "data-key": `remove-${target.id}` });
  removal.textContent = "×";
  removal.addEventListener("click", () => remove(target.id));
  item.append(thumb, removal, build("span", { class: "chip" }));
  return item;
}

function updateItem(item, target) {
  const isActive = String(target === state.active);
  const [thumb, , label] = item.children;
  if (thumb.getAttribute("aria-current") !== isActive) thumb.setAttribute("aria-current", isActive);
  const basis = [state.points, state.found[target], state.corrections[target], state.model, state.threshold];
  if (label.basis?.every((value, index) => value === basis[index])) return;
  label.basis = basis;
  updateChip(label, target);
}

/** Label a target with the lowest confidence among its points or, until all are found, with their number. */
function updateChip(label, target) {
  const matches = state.points.map((point) => foundIn(target, point)).filter(Boolean);
  const lowest = matches.length === state.points.length ? Math.min(...matches.map((match) => match.confidence)) : null;
  label.hidden = !state.points.length;
  label.textContent = lowest === null ? `${matches.length} of ${state.points.length}` : percent({ confidence: lowest });
  label.title = lowest === null ? "" : "Lowest confidence of its points";
  label.style.background = lowest === null ? "" : confidenceColour(lowest);
  label.style.color = lowest === null ? "" : "#10141a";
}

export function renderPoints(body, { select, rename, remove }) {
  keepFocus(body, () => {
    body.replaceChildren(
      ...state.points.map((point, index) => {
        const match = foundIn(state.active, point);
        const row = build("tr", { class: point.id === state.selected ? "selected" : "" });
        const number = build("button", { type: "button", class: "number", "aria-pressed": point.id === state.selected, "aria-label": `Select point ${index + 1}`, "data-key": `select-${point.id}` });
        number.textContent = index + 1;
        number.addEventListener("click", () => select(point.id));
        const name = build("input", { type: "text", value: point.name, maxlength: 100, "aria-label": `Name of point ${index + 1}`, "data-key": `name-${point.id}` });
        name.addEventListener("change", () => rename(point.id, name.value.trim() || point.name));
        const removal = build("button", { type: "button", class: "remove quiet", "aria-label": `Delete point ${index + 1}`, "data-key": `delete-${point.id}` });
        removal.textContent = "×";
        removal.addEventListener("click", () => remove(point.id));
        row.append(cell(number), cell(name), cell(coordinates(point), "wide"), cell(match ? coordinates(match) : "", "wide"), cell(match ? confidence(match) : "…"), cell(removal));
        return row;
      }),
    );
  });
}

const coordinates = ({ x, y }) => `${x.toFixed(1)}, ${y.toFixed(1)}`;

function cell(content, kind = "") {
  const element = build("td", kind ? { class: kind } : {});
  element.append(content);
  return element;
}

function confidence(match) {
  const element = build("span", { class: "confidence" });
  const bar = build("span", { class: "bar", "aria-hidden": "true" });
  const filled = build("span", {});
  filled.style.width = percent(match);
  filled.style.background = confidenceColour(match.confidence);
  bar.append(filled);
  element.append(bar, describe(match));
  return element;
}

/** Rebuild a container, then focus the element with the same key as before. */
function keepFocus(container, update) {
  const key = container.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  update();
  if (key) container.querySelector(`[data-key="${key}"]`)?.focus();
}
