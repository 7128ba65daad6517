// Which model the next message asks first; "automatic" is the configured order.

import { get } from "./api.js";
import { by, h } from "./dom.js";

const place = "timothy:model";
const field = () => by("model");

export const chosenModel = () => field().value || undefined;

export async function loadModels() {
  const { models } = await get("/v1/models");
  const options = models.map((model) => h("option", { value: model.id, text: model.id }));
  field().replaceChildren(h("option", { value: "", text: "automatic" }), ...options);
  const chosen = localStorage.getItem(place) ?? "";
  field().value = models.some((model) => model.id === chosen) ? chosen : "";
  field().hidden = models.length < 2;
  field().onchange = () => localStorage.setItem(place, field().value);
}
