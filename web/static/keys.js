// The keyboard: what each key does, and the window that says so.

import { openDialog } from "./dialog.js";
import { h } from "./dom.js";

const KEYS = [
  ["Enter", "send"],
  ["Shift + Enter", "a new line"],
  ["Esc", "stop the answer; leave a field"],
  ["n", "new chat"],
  ["/", "search"],
  ["i", "go to the message field"],
  ["e", "edit your last message"],
  ["↑ ↓", "walk through the list of conversations"],
  ["1  2  3", "allow once, allow for this conversation, deny"],
  ["F2  Del", "rename, delete the conversation in focus"],
  ["?", "this list"],
];

export function showKeys() {
  const rows = KEYS.map(([key, act]) => h("div", h("dt", h("kbd", key)), h("dd", act)));
  openDialog("Keys", h("dl.keys", ...rows));
}

// `actions`: a function per key; "Escape" works in fields too.
export function listenToKeys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open], [popover]:popover-open")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, textarea, select") && event.key !== "Escape") return;
    if (!Object.hasOwn(actions, event.key)) return;
    if (actions[event.key](event) !== false) event.preventDefault();
  });
}
