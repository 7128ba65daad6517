// Elements made by hand: `h("button", {class: "quiet", onclick: f}, "copy")`.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "text") element.textContent = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

export const button = (label, act, properties = {}) =>
  h("button", { type: "button", onclick: act, text: label, ...properties });

// One of the page's own drawings; the paths are ours, on a 16 x 16 grid.
const DRAWINGS = {
  menu: "M2 4h12M2 8h12M2 12h12",
  send: "M8 13V3M4 7l4-4 4 4",
  stop: "M4.5 4.5h7v7h-7z",
  dots: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  down: "M8 3v10M4 9l4 4 4-4",
  clip: "M12.5 7.5l-5 5a3 3 0 0 1-4.2-4.2l5.6-5.6a2 2 0 0 1 2.8 2.8l-5.5 5.5a1 1 0 0 1-1.4-1.4l5-5",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", DRAWINGS[name]);
  svg.append(path);
  return svg;
}

// Sets the text only when it differs, so that a selection in it, or a screen reader, is not disturbed.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function isEditable(element) {
  return element instanceof HTMLElement && element.matches("input, textarea, select, [contenteditable]");
}

// `crypto.randomUUID` exists on secure origins only; a house network is often plain http.
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", { class: "offscreen" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// A small button that copies and says so.
export function copyButton(textOf, label = "copy") {
  const copy = async () => {
    await copyText(textOf());
    setText(element, "copied");
    setTimeout(() => setText(element, label), 1500);
  };
  const element = button(label, copy, { class: "quiet" });
  return element;
}
