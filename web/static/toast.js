// Short words at the edge of the page, with at most one thing to do.

import { button, by, h } from "./dom.js";

const STAYS_MS = 6000; // also the time to undo

// `gone` runs when it leaves without its action.
export function toast(text, { action, act, gone } = {}) {
  const element = h("div.toast", h("span", text));
  const timer = setTimeout(() => leave(true), STAYS_MS);
  const leave = (byItself) => {
    clearTimeout(timer);
    if (!element.isConnected) return;
    element.remove();
    if (byItself) gone?.();
  };
  // a tab that closes has no time to undo any more
  if (gone) addEventListener("pagehide", () => leave(true), { once: true });
  const acted = () => {
    leave(false);
    act();
  };
  if (action) element.append(button(action, acted));
  by("toasts").append(element);
}

// For screen readers only: the few moments of a turn that are worth hearing.
export function announce(text) {
  const log = by("announce");
  log.append(h("p", text));
  while (log.childElementCount > 4) log.firstElementChild.remove();
}
