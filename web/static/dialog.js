// A modal window: a title, a way out, and whatever stands in it.

import { button, h } from "./dom.js";

export function openDialog(title, ...content) {
  const close = button("close", () => dialog.close(), { class: "quiet" });
  const dialog = h(
    "dialog",
    { "aria-label": title },
    h("div", { class: "dialog-head" }, h("h2", { text: title }), close),
    h("div", { class: "dialog-body" }, ...content),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
