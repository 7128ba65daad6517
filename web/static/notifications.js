// The addresses that are called when a turn that nobody watches ends or waits.

import * as api from "./api.js";
import { saying } from "./dialog.js";
import { button, h } from "./dom.js";

const PATH = "/v1/notifications";
const KINDS = { webhook: "Webhook (JSON)", ntfy: "ntfy topic (text)" };

export async function notifications() {
  const now = await api.get(PATH);
  const fields = Object.entries(KINDS).flatMap(([name, label]) => [
    h("label", label, h("input", { type: "text", name, value: now[name], placeholder: "https://", inputmode: "url" })),
    now.configured[name] && h("p.muted", `timothy.toml names ${now.configured[name]}: it is called, too`),
  ]);
  const said = h("div", { role: "status" });
  const save = async () => {
    const wanted = [...new FormData(form)].map(([name, value]) => [name, value.trim() || null]);
    await api.put(PATH, Object.fromEntries(wanted));
    return "saved";
  };
  const test = async () => {
    await save();
    const { results } = await api.post(`${PATH}/test`);
    return results.map(words).join(". ") || "No address is set.";
  };
  const act = (what) => (event) => {
    event?.preventDefault();
    return saying(said, what, "one moment");
  };
  const buttons = h("div.row", h("button", "Save"), button("Save and test", act(test)));
  const form = h("form.cards", { onsubmit: act(save) }, ...fields, buttons);
  const when = "Called when a turn that no tab watches ends, fails or waits for you.";
  return [h("p", `${when} They get the conversation's title and the first 300 characters of the answer.`), form, said];
}

const words = (one) => `${one.kind} ${one.address}: ${one.ok ? `it took the test in ${one.duration_ms} ms` : one.message}`;
