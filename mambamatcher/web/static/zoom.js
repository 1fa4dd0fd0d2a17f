// Zooming a pane: the wheel and two fingers enlarge what is under them. One pointer on an empty place pans.

const WHEEL_STEP = 0.0016; // per pixel of scrolling

export function listenForZoom(pane) {
  const { frame, stage } = pane;
  const fingers = new Map();
  frame.classList.add("zoomable");
  stage.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      pane.zoomBy(Math.exp(-WHEEL_STEP * event.deltaY * (event.deltaMode === 1 ? 16 : 1)), event.clientX, event.clientY);
    },
    { passive: false },
  );
  frame.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    pane.pinching = fingers.size > 1;
  });
  frame.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    const before = pinch(fingers);
    fingers.set(event.pointerId, event);
    const after = pinch(fingers);
    if (!before || !after) return;
    pane.panBy(after.x - before.x, after.y - before.y);
    pane.zoomBy(after.distance / before.distance, after.x, after.y);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    frame.addEventListener(kind, (event) => {
      fingers.delete(event.pointerId);
      if (!fingers.size) pane.pinching = false;
    });
  }
}

/** The middle of two fingers and the distance between them. */
function pinch(fingers) {
  if (fingers.size !== 2) return null;
  const [one, other] = fingers.values();
  return {
    x: (one.clientX + other.clientX) / 2,
    y: (one.clientY + other.clientY) / 2,
    distance: Math.max(1, Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY)),
  };
}
