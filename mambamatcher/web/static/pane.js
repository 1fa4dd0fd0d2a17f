// One image with its points: draws them, and reports clicks, drags and keys in pixels of the image.

import { drawHeatmap } from "./colours.js";
import { listenForZoom } from "./zoom.js";

const SVG = "http://www.w3.org/2000/svg";
const REACH = { mouse: 14, pen: 18, touch: 26 }; // distance in screen pixels within which a marker is hit
const CLICK_SLACK = 6; // a press that moves by fewer screen pixels is a click
const STEP = 0.01; // of the image's longer side, per press of an arrow key
const MAX_ZOOM = 20;
const LABEL_WIDTH = 0.18; // of the image's width, about
export const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Pane {
  /**
   * `on` has the callbacks select(id), move(id, x, y) and, where points can be placed, place(x, y, byKey) and
   * announce(text). Without `move` the points stay where they are. A zoomable pane takes the wheel and two fingers.
   */
  constructor(section, description, on, { zoomable = false } = {}) {
    this.section = section;
    this.on = on;
    this.zoomable = zoomable;
    this.view = { zoom: 1, x: 0, y: 0 };
    this.image = null;
    this.markers = [];
    this.stage = section.querySelector(".stage");
    this.empty = section.querySelector(".empty");
    this.frame = build("div", { class: "frame", tabindex: 0, role: "group", "aria-label": description, hidden: "" });
    this.img = build("img", { alt: "", draggable: "false" });
    this.canvas = build("canvas", { "aria-hidden": "true" });
    this.overlay = draw("svg", { class: "overlay", "aria-hidden": "true" });
    this.waiting = build("div", { class: "wait", hidden: "" });
    this.frame.append(this.img, this.canvas, this.overlay);
    this.stage.append(this.frame, this.waiting);
    this.frame.setAttribute("aria-describedby", `${section.id}-hint`);
    this.listen();
  }

  show(image, url) {
    if (image?.id === this.image?.id) return;
    this.image = image;
    this.frame.hidden = !image;
    this.empty.hidden = Boolean(image);
    this.section.querySelector(".file-name").textContent = image ? `${image.name} · ${image.width} × ${image.height}` : "";
    this.section.querySelector(".hint").hidden = !image;
    if (!image) return;
    this.frame.style.setProperty("--ratio", image.width / image.height);
    this.img.alt = image.name;
    this.img.hidden = true; // until it is there: the points must never lie on the image before it
    this.img.src = url;
    this.ready = this.img
      .decode()
      .catch(() => {})
      .then(() => this.image === image && (this.img.hidden = false));
    this.resetView();
    this.cursor = { x: image.width / 2, y: image.height / 2 };
  }

  /** Show what the user is waiting for; "" hides it. */
  showWaiting(text) {
    this.waiting.hidden = !text;
    this.waiting.textContent = text;
  }

  showHeat(heatmap) {
    this.canvas.hidden = !heatmap;
    if (heatmap && heatmap !== this.heatmap) drawHeatmap(this.canvas, heatmap);
    this.heatmap = heatmap;
  }

  /**
   * Draw markers: id, number, x, y, colour, tag, label, selected, hollow, corrected. The selected one is on top.
   * `joined` are pairs of ids between which there is a line.
   */
  showMarkers(markers, joined = this.joined ?? []) {
    this.markers = markers;
    this.joined = joined;
    const order = [...markers].sort((one, other) => Number(one.selected) - Number(other.selected));
    this.overlay.replaceChildren(...this.drawLines(), ...order.map((marker) => this.drawLabel(marker)), ...order.map((marker) => this.drawMarker(marker)), this.drawCrosshair());
  }

  drawLines() {
    const byId = new Map(this.markers.map((marker) => [marker.id, this.position(marker)]));
    return this.joined
      .map((pair) => pair.map((id) => byId.get(id)))
      .filter(([from, to]) => from && to)
      .map(([from, to]) => draw("line", { class: "bone", x1: from.x, y1: from.y, x2: to.x, y2: to.y }));
  }

  drawMarker(marker) {
    const states = ["selected", "hollow", "corrected"].filter((state) => marker[state]);
    const [holder, group] = this.drawHolder(marker, ["marker", ...states].join(" "));
    holder.dataset.point = marker.number;
    const number = draw("text", {});
    number.textContent = marker.number;
    group.append(draw("circle", { class: "ring", r: 14 }), draw("circle", { class: "disc", r: 10, fill: marker.colour }), number);
    if (marker.tag) {
      const right = marker.x < 0.8 * this.image.width;
      const tag = draw("g", { class: "tag", transform: `translate(${right ? 38 : -38} 0)` });
      const text = draw("text", {});
      text.textContent = marker.tag;
      tag.append(draw("rect", { x: -20, y: -11, width: 40, height: 22, rx: 11 }), text);
      group.append(tag);
    }
    return holder;
  }

  /** Draw the name of a point, on the side where fewer other points are. */
  drawLabel(marker) {
    const [holder, group] = this.drawHolder(marker, marker.selected ? "name selected" : "name");
    const crowded = (side) => {
      const beside = (other) => (side * (other.x - marker.x)) / this.image.width;
      const near = (other) => beside(other) > 0 && beside(other) < LABEL_WIDTH && Math.abs(other.y - marker.y) < 0.04 * this.image.height;
      const outside = (side > 0 ? this.image.width - marker.x : marker.x) < LABEL_WIDTH * this.image.width;
      return this.markers.filter(near).length + (outside ? 2 : 0);
    };
    const right = crowded(1) <= crowded(-1);
    const label = draw("text", { x: right ? 17 : -17, "text-anchor": right ? "start" : "end" });
    label.textContent = marker.label ?? "";
    group.append(label);
    return holder;
  }

  /** A place to draw at a marker, in screen pixels whatever the zoom. */
  drawHolder(marker, kind) {
    const holder = draw("svg", { ...this.position(marker), class: kind, overflow: "visible" });
    const group = draw("g", { class: "unzoomed" });
    holder.append(group);
    return [holder, group];
  }

  drawCrosshair() {
    const { x, y } = this.image ? this.position(this.cursor) : { x: 0, y: 0 };
    const crosshair = draw("g", { class: "crosshair" });
    crosshair.append(draw("line", { x1: x, x2: x, y1: 0, y2: "100%" }), draw("line", { x1: 0, x2: "100%", y1: y, y2: y }));
    return crosshair;
  }

  /** Convert pixels to percentages of the frame. */
  position({ x, y }) {
    return { x: `${(100 * x) / this.image.width}%`, y: `${(100 * y) / this.image.height}%` };
  }

  listen() {
    const frame = this.frame;
    frame.addEventListener("pointerdown", (event) => this.startPress(event));
    frame.addEventListener("pointermove", (event) => this.showHover(event));
    frame.addEventListener("keydown", (event) => this.handleKey(event));
    frame.addEventListener("focus", () => this.showMarkers(this.markers));
    // A finger on a marker drags it; anywhere else it scrolls the page.
    const preventScroll = (event) => {
      const touch = event.changedTouches[0];
      if (this.markerNear({ clientX: touch.clientX, clientY: touch.clientY, pointerType: "touch" })) event.preventDefault();
    };
    frame.addEventListener("touchstart", preventScroll, { passive: false });
    if (this.zoomable) listenForZoom(this);
  }

  zoomBy(factor, clientX, clientY) {
    const zoom = Math.min(MAX_ZOOM, Math.max(1, this.view.zoom * factor));
    const box = this.frame.getBoundingClientRect();
    const growth = zoom / this.view.zoom - 1;
    const [x, y] = [clientX ?? box.left + box.width / 2, clientY ?? box.top + box.height / 2];
    this.setView(zoom, this.view.x - growth * (x - box.left), this.view.y - growth * (y - box.top));
  }

  panBy(x, y) {
    this.setView(this.view.zoom, this.view.x + x, this.view.y + y);
  }

  resetView() {
    this.setView(1, 0, 0);
  }

  /** Enlarge the frame and move it, so that it always covers the place it has at its normal size. */
  setView(zoom, x, y) {
    const within = (value, size) => Math.min(0, Math.max((1 - zoom) * size, value));
    this.view = { zoom, x: within(x, this.frame.clientWidth), y: within(y, this.frame.clientHeight) };
    this.frame.style.transform = zoom === 1 ? "" : `translate(${this.view.x}px, ${this.view.y}px) scale(${zoom})`;
    this.frame.style.setProperty("--zoom", zoom);
  }

  /** Follow a press until it ends as a click or a drag. */
  startPress(event) {
    if (event.button !== 0) return;
    const held = this.markerNear(event);
    const start = event;
    let last = event;
    let moved = false;
    if (held) this.on.select(held.id);
    if (held || this.zoomable) {
      this.frame.setPointerCapture(event.pointerId);
    }
    const follow = (next) => {
      moved ||= Math.hypot(next.clientX - start.clientX, next.clientY - start.clientY) > CLICK_SLACK;
      if (!held && moved && this.zoomable && !this.pinching) this.panBy(next.clientX - last.clientX, next.clientY - last.clientY);
      last = next;
      if (!held || !moved || !this.on.move) return;
      this.frame.classList.add("dragging");
      const position = this.pixels(next);
      this.showMarkers(this.markers.map((marker) => (marker.id === held.id ? { ...marker, ...position, tag: "" } : marker)));
    };
    const finish = (end) => {
      stop.abort();
      this.frame.classList.remove("dragging");
      if (end.type === "pointercancel") return;
      const { x, y } = this.pixels(end);
      if (held && moved) this.on.move?.(held.id, x, y);
      else if (!held && !moved) this.on.place?.(x, y);
    };
    const stop = new AbortController();
    this.frame.addEventListener("pointermove", follow, { signal: stop.signal });
    this.frame.addEventListener("pointerup", finish, { signal: stop.signal });
    this.frame.addEventListener("pointercancel", finish, { signal: stop.signal });
  }

  showHover(event) {
    this.frame.classList.toggle("on-marker", Boolean(this.markerNear(event)));
  }

  handleKey(event) {
    if (!this.on.place) return;
    const arrow = ARROWS[event.key];
    if (arrow) {
      const { width, height } = this.image;
      const step = Math.max(width, height) * STEP * (event.shiftKey ? 0.1 : 1);
      this.cursor = {
        x: Math.min(width, Math.max(0, this.cursor.x + arrow[0] * step)),
        y: Math.min(height, Math.max(0, this.cursor.y + arrow[1] * step)),
      };
      this.showMarkers(this.markers);
      this.on.announce(`x ${Math.round(this.cursor.x)}, y ${Math.round(this.cursor.y)}`);
    } else if (event.key === "Enter" || event.key === " ") {
      this.on.place(this.cursor.x, this.cursor.y, true);
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Convert the position of a pointer event to pixels of the image. */
  pixels(event) {
    const box = this.frame.getBoundingClientRect();
    const fraction = (value, low, size) => Math.min(1, Math.max(0, (value - low) / size));
    return {
      x: fraction(event.clientX, box.left, box.width) * this.image.width,
      y: fraction(event.clientY, box.top, box.height) * this.image.height,
    };
  }

  markerNear(event) {
    const box = this.frame.getBoundingClientRect();
    const distance = ({ x, y }) =>
      Math.hypot(
        box.left + (x / this.image.width) * box.width - event.clientX,
        box.top + (y / this.image.height) * box.height - event.clientY,
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
