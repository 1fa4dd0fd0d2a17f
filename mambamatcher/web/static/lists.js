// The strip of targets and the table of points. Both are made anew from the state; the focus stays where it was.

import { pictureAddress } from "./api.js";
import { confidenceColour } from "./colours.js";
import { build } from "./pane.js";
import { foundIn, state } from "./store.js";

export const percent = (match) => `${Math.round(100 * match.confidence)}%`;
export const describe = (match) => (match.corrected ? "corrected" : match.matched ? percent(match) : `${percent(match)}, no match`);

export function showTargets(strip, { choose, remove }) {
  keepFocus(strip, () => {
    strip.replaceChildren(
      ...state.targets.map((target) => {
        const item = build("li", {});
        const thumb = build("button", { type: "button", class: "thumb", "aria-current": target.id === state.active, "data-key": `show-${target.id}` });
        const image = build("img", { alt: "", loading: "lazy", src: pictureAddress(target.id) });
        thumb.append(image, build("span", { class: "caption" }));
        thumb.lastChild.textContent = target.name;
        thumb.addEventListener("click", () => choose(target.id));
        const away = build("button", { type: "button", class: "remove", "aria-label": `Remove ${target.name}`, "data-key": `remove-${target.id}` });
        away.textContent = "×";
        away.addEventListener("click", () => remove(target.id));
        item.append(thumb, away, chip(target));
        return item;
      }),
    );
  });
}

/** Say how sure the least sure point of a target is. */
function chip(target) {
  const matches = state.points.map((point) => foundIn(target.id, point.id)).filter(Boolean);
  const shown = build("span", { class: "chip" });
  shown.hidden = !state.points.length;
  if (matches.length < state.points.length) {
    shown.textContent = `${matches.length} of ${state.points.length}`;
  } else if (matches.length) {
    const least = matches.reduce((one, other) => (other.confidence < one.confidence ? other : one));
    shown.textContent = percent(least);
    shown.title = "The least sure of its points";
    shown.style.background = confidenceColour(least.confidence);
    shown.style.color = "#10141a";
  }
  return shown;
}

export function showPoints(body, { choose, rename, remove }) {
  keepFocus(body, () => {
    body.replaceChildren(
      ...state.points.map((point, index) => {
        const match = foundIn(state.active, point.id);
        const row = build("tr", { class: point.id === state.chosen ? "chosen" : "" });
        const number = build("button", { type: "button", class: "number", "aria-pressed": point.id === state.chosen, "aria-label": `Choose point ${index + 1}`, "data-key": `choose-${point.id}` });
        number.textContent = index + 1;
        number.addEventListener("click", () => choose(point.id));
        const name = build("input", { type: "text", value: point.name, maxlength: 100, "aria-label": `Name of point ${index + 1}`, "data-key": `name-${point.id}` });
        name.addEventListener("change", () => rename(point.id, name.value.trim() || point.name));
        const away = build("button", { type: "button", class: "remove quiet", "aria-label": `Delete point ${index + 1}`, "data-key": `delete-${point.id}` });
        away.textContent = "×";
        away.addEventListener("click", () => remove(point.id));
        row.append(cell(number), cell(name), cell(place(point), "wide"), cell(match ? place(match) : "", "wide"), cell(match ? confidence(match) : "…"), cell(away));
        return row;
      }),
    );
  });
}

const place = ({ x, y }) => `${x.toFixed(1)}, ${y.toFixed(1)}`;

function cell(content, kind = "") {
  const made = build("td", kind ? { class: kind } : {});
  made.append(content);
  return made;
}

function confidence(match) {
  const shown = build("span", { class: "confidence" });
  const bar = build("span", { class: "bar", "aria-hidden": "true" });
  const part = build("span", {});
  part.style.width = percent(match);
  part.style.background = confidenceColour(match.confidence);
  bar.append(part);
  shown.append(bar, describe(match));
  return shown;
}

function keepFocus(container, update) {
  const key = container.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  update();
  if (key) container.querySelector(`[data-key="${key}"]`)?.focus();
}
