// The strip of targets and the table of points. Both are rebuilt from the state on every change; the focus is kept.

import { imageUrl } from "./api.js";
import { confidenceColour } from "./colours.js";
import { build } from "./pane.js";
import { foundIn, state } from "./store.js";

export const percent = (match) => `${Math.round(100 * match.confidence)}%`;
export const describe = (match) => (match.corrected ? "corrected" : match.matched ? percent(match) : `${percent(match)}, no match`);

export function renderTargets(strip, { show, remove }) {
  keepFocus(strip, () => {
    strip.replaceChildren(
      ...state.targets.map((target) => {
        const item = build("li", {});
        const thumb = build("button", { type: "button", class: "thumb", "aria-current": target.id === state.active, "data-key": `show-${target.id}` });
        const image = build("img", { alt: "", loading: "lazy", src: imageUrl(target.id) });
        thumb.append(image, build("span", { class: "caption" }));
        thumb.lastChild.textContent = target.name;
        thumb.addEventListener("click", () => show(target.id));
        const removal = build("button", { type: "button", class: "remove", "aria-label": `Remove ${target.name}`, "data-key": `remove-${target.id}` });
        removal.textContent = "×";
        removal.addEventListener("click", () => remove(target.id));
        item.append(thumb, removal, chip(target));
        return item;
      }),
    );
  });
}

/** A label with the lowest confidence among the points of a target or, until all are found, their number. */
function chip(target) {
  const matches = state.points.map((point) => foundIn(target.id, point.id)).filter(Boolean);
  const label = build("span", { class: "chip" });
  label.hidden = !state.points.length;
  if (matches.length < state.points.length) {
    label.textContent = `${matches.length} of ${state.points.length}`;
  } else if (matches.length) {
    const lowest = matches.reduce((one, other) => (other.confidence < one.confidence ? other : one));
    label.textContent = percent(lowest);
    label.title = "Lowest confidence of its points";
    label.style.background = confidenceColour(lowest.confidence);
    label.style.color = "#10141a";
  }
  return label;
}

export function renderPoints(body, { select, rename, remove }) {
  keepFocus(body, () => {
    body.replaceChildren(
      ...state.points.map((point, index) => {
        const match = foundIn(state.active, point.id);
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
