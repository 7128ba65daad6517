// An empty conversation: who answers, three things to try, how to have a better model.

import * as api from "./api.js";
import { button, h } from "./dom.js";

const TRIES = [
  "Explain in five sentences how a sourdough starter works.",
  "Write a Python function that finds duplicate files in a folder.",
  "Help me plan a quiet weekend: ask me three questions first.",
];

// `start(text)` puts the words into the message field; `settings()` opens the settings.
export async function showWelcome(element, { start, settings }) {
  const who = h("p.who");
  const tries = TRIES.map((text) => button(text, () => start(text), { class: "try" }));
  element.replaceChildren(h("h2", "What would you like to know?"), who, h("div.tries", ...tries));
  const { providers } = await api.get("/v1/providers");
  who.replaceChildren(...describe(providers, settings));
}

function describe(providers, settings) {
  const better = button("How to add a better model", settings, { class: "link" });
  const first = providers.find((provider) => provider.healthy) ?? providers[0];
  if (!first) return ["No model is set up yet. ", better];
  const name = h("strong", { text: first.model || first.name });
  if (first.driver === "local")
    return [name, ` answers, on this machine alone (${first.state}). It is small: good for trying things out; check what it says. `, better];
  const others = providers.length > 1 ? ` If ${first.name} fails, ${providers.length - 1} more can take over.` : "";
  return [name, ` answers, from ${first.name}.${others}`];
}
