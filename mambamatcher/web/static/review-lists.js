// The lists of points and of targets on the review page.

import { confidenceColour } from "./colours.js";
import { build } from "./pane.js";
import { isReviewed, placeOf, state } from "./review-store.js";

const SHOWN = 1000; // targets in the list; the keys reach all of them

export function renderNames(list, select) {
  list.replaceChildren(
    ...state.run.names.map((name, index) => {
      const { absent, confidence, corrected } = placeOf(name);
      const button = build("button", { type: "button", "aria-pressed": name === state.selected });
      const done = absent ? "absent" : corrected ? "set" : "";
      button.append(span("number", index + 1), span("text", name), badge(done, confidence));
      button.addEventListener("click", () => select(name));
      return item(button);
    }),
  );
}

let built = null; // the run whose list is on display

/** Update the list of targets; it is built anew only for another run, so that a correction stays quick. */
export function renderImages(list, more, show) {
  const targets = state.run.targets.slice(0, SHOWN);
  if (built !== state.run) {
    built = state.run;
    list.replaceChildren(...targets.map((target) => item(buildTarget(target, show))));
    more.hidden = state.run.targets.length <= SHOWN;
    more.textContent = `and ${state.run.targets.length - SHOWN} that are less doubtful`;
  }
  targets.forEach((target, index) => updateTarget(list.children[index].firstChild, target));
}

function buildTarget(target, show) {
  const button = build("button", { type: "button", title: target.error ?? "" });
  button.append(span("text", target.name), span("", ""));
  button.addEventListener("click", () => show(target.number));
  return button;
}

function updateTarget(button, target) {
  const isCurrent = String(target.number === state.current);
  const key = `${target.status} ${target.corrected}`;
  if (button.getAttribute("aria-current") !== isCurrent) {
    button.setAttribute("aria-current", isCurrent);
    if (isCurrent === "true") button.scrollIntoView({ block: "nearest" });
  }
  if (button.dataset.key === key) return;
  button.dataset.key = key;
  const done = target.error ? "unreadable" : isReviewed(target) ? target.status : target.corrected ? `${target.corrected} of ${state.run.names.length}` : "";
  button.lastChild.replaceWith(badge(done, 1 - target.doubt));
}

function badge(done, confidence) {
  if (done) return span("badge done", done);
  const label = span("badge", `${Math.round(100 * confidence)}%`);
  label.style.background = confidenceColour(confidence);
  return label;
}

function item(content) {
  const element = build("li", {});
  element.append(content);
  return element;
}

function span(kind, text) {
  const element = build("span", kind ? { class: kind } : {});
  element.textContent = text;
  return element;
}
