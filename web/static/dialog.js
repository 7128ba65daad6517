// A modal window: a title, a way out, and whatever stands in it.

import { button, h } from "./dom.js";

export function openDialog(title, ...content) {
  const close = button("close", () => dialog.close(), { class: "quiet" });
  const dialog = h(
    "dialog",
    {
      "aria-label": title,
      onclick: (event) => event.target === dialog && dialog.close(),
      onclose: () => dialog.remove(),
    },
    h("div.dialog-head", h("h2", title), close),
    h("div.dialog-body", ...content),
  );
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export const trouble = (error) => h("p.danger", { role: "alert", text: error.message });

// Lets `element` say what came of the act, and something meanwhile.
export async function saying(element, act, meanwhile = "") {
  element.textContent = meanwhile;
  try {
    element.textContent = (await act()) ?? "";
  } catch (error) {
    element.replaceChildren(trouble(error));
  }
}
