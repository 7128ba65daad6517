// A modal window: a title, a way out, and whatever stands in it.

import { h } from "./dom.js";

export function openDialog(title, ...content) {
  const close = h("button", { type: "button", class: "quiet", text: "close" });
  const dialog = h(
    "dialog",
    { "aria-label": title },
    h("div", { class: "dialog-head" }, h("h2", { text: title }), close),
    h("div", { class: "dialog-body" }, ...content),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
