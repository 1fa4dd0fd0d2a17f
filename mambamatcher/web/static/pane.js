// One picture with points on it: shows them, and tells what pointer and keys ask for, in pixels of the picture.

import { drawHeatmap } from "./colours.js";

const SVG = "http://www.w3.org/2000/svg";
const REACH = { mouse: 14, pen: 18, touch: 26 }; // how near to a marker counts as on it, in screen pixels
const SLACK = 6; // a press that moves less is a click
const STEP = 0.01; // of the picture's larger side, for a press of an arrow key
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Pane {
  /** `tell` has place(x, y), choose(id), move(id, x, y) and say(text). */
  constructor(section, description, tell) {
    this.section = section;
    this.tell = tell;
    this.picture = null;
    this.markers = [];
    this.stage = section.querySelector(".stage");
    this.empty = section.querySelector(".empty");
    this.frame = build("div", { class: "frame", tabindex: 0, role: "group", "aria-label": description, hidden: "" });
    this.image = build("img", { alt: "", draggable: "false" });
    this.canvas = build("canvas", { "aria-hidden": "true" });
    this.overlay = draw("svg", { class: "overlay", "aria-hidden": "true" });
    this.wait = build("div", { class: "wait", hidden: "" });
    this.frame.append(this.image, this.canvas, this.overlay);
    this.stage.append(this.frame, this.wait);
    this.frame.setAttribute("aria-describedby", `${section.id}-hint`);
    this.listen();
  }

  show(picture, address) {
    if (picture?.id === this.picture?.id) return;
    this.picture = picture;
    this.frame.hidden = !picture;
    this.empty.hidden = Boolean(picture);
    this.section.querySelector(".file-name").textContent = picture ? `${picture.name} · ${picture.width} × ${picture.height}` : "";
    this.section.querySelector(".hint").hidden = !picture;
    if (!picture) return;
    this.frame.style.setProperty("--ratio", picture.width / picture.height);
    this.image.src = address;
    this.image.alt = picture.name;
    this.cursor = { x: picture.width / 2, y: picture.height / 2 };
  }

  /** Say what is being waited for; "" when nothing is. */
  showWait(text) {
    this.wait.hidden = !text;
    this.wait.textContent = text;
  }

  showHeat(heatmap) {
    this.canvas.hidden = !heatmap;
    if (heatmap && heatmap !== this.heatmap) drawHeatmap(this.canvas, heatmap);
    this.heatmap = heatmap;
  }

  /** Draw markers: id, number, x, y, colour, tag, chosen, hollow, corrected. The chosen one lies on top. */
  showMarkers(markers) {
    this.markers = markers;
    const order = [...markers].sort((one, other) => Number(one.chosen) - Number(other.chosen));
    this.overlay.replaceChildren(...order.map((marker) => this.drawMarker(marker)), this.drawCrosshair());
  }

  drawMarker(marker) {
    const kinds = ["chosen", "hollow", "corrected"].filter((kind) => marker[kind]);
    const place = draw("svg", { ...this.at(marker), class: ["marker", ...kinds].join(" "), overflow: "visible" });
    place.dataset.point = marker.number;
    const number = draw("text", {});
    number.textContent = marker.number;
    place.append(draw("circle", { class: "ring", r: 14 }), draw("circle", { class: "disc", r: 10, fill: marker.colour }), number);
    if (marker.tag) {
      const right = marker.x < 0.8 * this.picture.width;
      const tag = draw("g", { class: "tag", transform: `translate(${right ? 38 : -38} 0)` });
      const text = draw("text", {});
      text.textContent = marker.tag;
      tag.append(draw("rect", { x: -20, y: -11, width: 40, height: 22, rx: 11 }), text);
      place.append(tag);
    }
    return place;
  }

  drawCrosshair() {
    const { x, y } = this.picture ? this.at(this.cursor) : { x: 0, y: 0 };
    const crosshair = draw("g", { class: "crosshair" });
    crosshair.append(draw("line", { x1: x, x2: x, y1: 0, y2: "100%" }), draw("line", { x1: 0, x2: "100%", y1: y, y2: y }));
    return crosshair;
  }

  at({ x, y }) {
    return { x: `${(100 * x) / this.picture.width}%`, y: `${(100 * y) / this.picture.height}%` };
  }

  listen() {
    const frame = this.frame;
    frame.addEventListener("pointerdown", (event) => this.press(event));
    frame.addEventListener("pointermove", (event) => this.hover(event));
    frame.addEventListener("keydown", (event) => this.key(event));
    frame.addEventListener("focus", () => this.showMarkers(this.markers));
    // a finger on a marker moves it; anywhere else it may scroll the page
    const holdPage = (event) => {
      const touch = event.changedTouches[0];
      if (this.markerNear({ clientX: touch.clientX, clientY: touch.clientY, pointerType: "touch" })) event.preventDefault();
    };
    frame.addEventListener("touchstart", holdPage, { passive: false });
  }

  press(event) {
    if (event.button !== 0) return;
    const held = this.markerNear(event);
    const start = event;
    let moved = false;
    if (held) {
      this.tell.choose(held.id);
      this.frame.setPointerCapture(event.pointerId);
    }
    const follow = (next) => {
      moved ||= Math.hypot(next.clientX - start.clientX, next.clientY - start.clientY) > SLACK;
      if (!held || !moved) return;
      this.frame.classList.add("dragging");
      const place = this.pixels(next);
      this.showMarkers(this.markers.map((marker) => (marker.id === held.id ? { ...marker, ...place, tag: "" } : marker)));
    };
    const finish = (last) => {
      stop.abort();
      this.frame.classList.remove("dragging");
      if (last.type === "pointercancel") return;
      const { x, y } = this.pixels(last);
      if (held && moved) this.tell.move(held.id, x, y);
      else if (!held && !moved) this.tell.place(x, y);
    };
    const stop = new AbortController();
    this.frame.addEventListener("pointermove", follow, { signal: stop.signal });
    this.frame.addEventListener("pointerup", finish, { signal: stop.signal });
    this.frame.addEventListener("pointercancel", finish, { signal: stop.signal });
  }

  hover(event) {
    this.frame.classList.toggle("on-marker", Boolean(this.markerNear(event)));
  }

  key(event) {
    const arrow = ARROWS[event.key];
    if (arrow) {
      const { width, height } = this.picture;
      const step = Math.max(width, height) * STEP * (event.shiftKey ? 0.1 : 1);
      this.cursor = {
        x: Math.min(width, Math.max(0, this.cursor.x + arrow[0] * step)),
        y: Math.min(height, Math.max(0, this.cursor.y + arrow[1] * step)),
      };
      this.showMarkers(this.markers);
      this.tell.say(`x ${Math.round(this.cursor.x)}, y ${Math.round(this.cursor.y)}`);
    } else if (event.key === "Enter" || event.key === " ") {
      this.tell.place(this.cursor.x, this.cursor.y, true);
    } else {
      return;
    }
    event.preventDefault();
  }

  pixels(event) {
    const box = this.frame.getBoundingClientRect();
    const part = (value, low, size) => Math.min(1, Math.max(0, (value - low) / size));
    return {
      x: part(event.clientX, box.left, box.width) * this.picture.width,
      y: part(event.clientY, box.top, box.height) * this.picture.height,
    };
  }

  markerNear(event) {
    const box = this.frame.getBoundingClientRect();
    const distance = ({ x, y }) =>
      Math.hypot(
        box.left + (x / this.picture.width) * box.width - event.clientX,
        box.top + (y / this.picture.height) * box.height - event.clientY,
      );
    const near = this.markers.filter((marker) => distance(marker) <= REACH[event.pointerType || "mouse"]);
    return near.sort((one, other) => distance(one) - distance(other))[0];
  }
}

export function build(name, attributes) {
  return fill(document.createElement(name), attributes);
}

function draw(name, attributes) {
  return fill(document.createElementNS(SVG, name), attributes);
}

function fill(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
