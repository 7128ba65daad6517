// The list of conversations on a narrow screen: in by button or swipe, out by a touch beside it.

import { by, icon } from "./dom.js";

const EDGE_PX = 30;
const FAR_PX = 60;
const STRAIGHT_PX = 40;

export const isOpen = () => document.body.classList.contains("drawer-open");
export const isNarrow = () => matchMedia("(max-width: 800px)").matches;

export function setDrawer(open) {
  if (open === isOpen()) return;
  document.body.classList.toggle("drawer-open", open);
  by("shade").hidden = !open;
  by("drawer").setAttribute("aria-expanded", String(open));
  if (open) by("search").focus();
  else if (by("sidebar").contains(document.activeElement)) by("drawer").focus();
}

export function listenToDrawer() {
  by("drawer").append(icon("menu"));
  by("drawer").onclick = () => setDrawer(true);
  by("shade").onclick = () => setDrawer(false);
  addEventListener("popstate", () => setDrawer(false)); // also when the conversation that was chosen is open already
  let from = null;
  const began = (event) => (from = event.touches.length === 1 ? event.touches[0] : null);
  const ended = (event) => {
    if (!from) return;
    const to = event.changedTouches[0];
    if (Math.abs(to.clientY - from.clientY) > STRAIGHT_PX) return;
    if (to.clientX - from.clientX > FAR_PX && from.clientX < EDGE_PX) setDrawer(true);
    else if (to.clientX - from.clientX < -FAR_PX) setDrawer(false);
  };
  addEventListener("touchstart", began, { passive: true });
  addEventListener("touchend", ended, { passive: true });
}
