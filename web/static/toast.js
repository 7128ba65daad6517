// Short words at the edge of the page, with at most one thing to do.

import { button, h } from "./dom.js";

const STAYS_MS = 6000;

// Shows a toast. Returns a function that takes it away; `gone` runs when it leaves without its action.
export function toast(text, { action, act, gone, stays = STAYS_MS } = {}) {
  const element = h("div", { class: "toast" }, h("span", { text }));
  const timer = setTimeout(() => leave(true), stays);
  const leave = (byItself) => {
    clearTimeout(timer);
    if (!element.isConnected) return;
    element.remove();
    if (byItself) gone?.();
  };
  if (action) {
    const acted = () => {
      leave(false);
      act();
    };
    element.append(button(action, acted));
  }
  document.getElementById("toasts").append(element);
  return () => leave(false);
}

// For screen readers only: the few moments of a turn that are worth hearing.
export function announce(text) {
  const log = document.getElementById("announce");
  log.append(h("p", { text }));
  while (log.childElementCount > 4) log.firstElementChild.remove();
}
