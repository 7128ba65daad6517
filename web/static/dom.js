// Elements made by hand: `h("p.muted", { onclick: f }, "words", child)`; without properties, the children follow.

export function h(kind, ...children) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag);
  const properties = children[0]?.constructor === Object ? children.shift() : {};
  element.classList.add(...classes);
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  element.append(...children.flat().filter((child) => (child ?? false) !== false));
  return element;
}

function set(element, name, value) {
  if ((value ?? false) === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "text") element.textContent = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

// Nothing happens when it is pressed again meanwhile. A disabled one would lose the focus.
export function button(label, act, properties = {}) {
  let busy = false;
  const pressed = async () => {
    if (busy) return;
    busy = true;
    try {
      await act();
    } finally {
      busy = false;
    }
  };
  return h("button", { type: "button", onclick: pressed, text: label, ...properties });
}

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
  const drawn = (tag, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const path = drawn("path", { d: DRAWINGS[name] });
  return drawn("svg", { viewBox: "0 0 16 16", class: `icon icon-${name}`, "aria-hidden": "true" }, path);
}

export const by = (id) => document.getElementById(id);

// Sets the text only when it differs, so that a selection in it, or a screen reader, is not disturbed.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

// The arrows move the focus along `elements`, round their ends. Returns who has it now; undefined for any other key.
export function walk(elements, event) {
  const step = STEPS[event.key];
  if (!step) return undefined;
  event.preventDefault();
  const next = elements.at((elements.indexOf(document.activeElement) + step) % elements.length);
  next.focus();
  return next;
}

// Sixteen bytes by chance; `crypto.randomUUID` exists on secure origins only, and a house network is often plain http.
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join("-");

// Enter sends; with Shift it is a new line, and in the middle of composing a character it belongs to that.
export const isSend = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing;

async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea.visually-hidden");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// A small button that copies and says so.
export function copyButton(textOf) {
  const copy = async () => {
    await copyText(textOf());
    setText(element, "copied");
    setTimeout(() => setText(element, "copy"), 1500);
  };
  const element = button("copy", copy, { class: "quiet" });
  return element;
}

// What is shown as it is written, under a line with its name and a button that copies it.
export function codeBox(label, content, { dir = "ltr", name = label }) {
  const pre = h("pre", { tabindex: "0", dir, "aria-label": name }, content);
  return h("div.code", h("div.code-head", h("span", label), copyButton(() => pre.textContent)), pre);
}
