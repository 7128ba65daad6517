// A growing text on the page: finished blocks as the server's HTML, the open one as it comes.

import { pause, renderBlocks } from "./api.js";
import { isNo } from "./attempt.js";
import { Blocks } from "./blocks.js";
import { codeBox, h, setText } from "./dom.js";

const CACHED = 3000;
const BATCH_BLOCKS = 40;
const BATCH_CHARACTERS = 40_000;
const LONGEST_RENDERED = 20_000; // a longer block stays plain text
const LONGEST_LIVE = 6_000; // a longer open block is rendered when it is finished
const LIVE_EVERY_MS = 350;
const PIECE = 4_000; // characters of one piece of a long plain text: only the last piece is laid out again
const FIRST_SHOWN = 12; // blocks of a long answer that are rendered without waiting to be looked at

const cache = new Map(); // block -> HTML
const wanted = new Map(); // block -> [elements]
let asking = false;

// Blocks far from the window stay plain until somebody scrolls near them.
const near = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      want(entry.target);
    }
  },
  { rootMargin: "1500px" },
);

const sources = new WeakMap(); // element -> its finished block

export class MarkdownBody {
  #blocks = new Blocks();
  #text = "";
  #live = false;
  #open = null;
  #count = 0;

  constructor() {
    this.element = h("div.markdown");
  }

  // Shows `text`; while `live`, its last block is still growing.
  set(text, live) {
    if (text === this.#text && live === this.#live) return;
    if (!this.#live || !text.startsWith(this.#text)) this.#reset();
    this.#text = text;
    this.#live = live;
    for (const block of this.#blocks.grow(text)) this.#finish(block);
    if (!live) for (const block of this.#blocks.finish()) this.#finish(block);
    else if (this.#blocks.open.trim()) this.#show(this.#blocks.open);
  }

  #reset() {
    this.#blocks = new Blocks();
    this.#count = 0;
    this.#open = null;
    this.element.replaceChildren();
  }

  #show(block) {
    if (!this.#open) {
      this.#open = new OpenBlock();
      this.element.append(this.#open.element);
    }
    this.#open.set(block, this.#blocks.openFence);
  }

  #finish(block) {
    const element = this.#open ? this.#open.close(block) : h("div.block");
    if (!this.#open) this.element.append(element);
    this.#open = null;
    this.#count += 1;
    sources.set(element, block);
    if (cache.has(block)) apply(element, cache.get(block));
    else if (block.length > LONGEST_RENDERED) plain(element, block);
    else {
      if (!element.hasChildNodes()) plain(element, block);
      if (this.#count <= FIRST_SHOWN || this.#live) want(element);
      else near.observe(element);
    }
  }
}

// The last block of a running answer.
class OpenBlock {
  #source = "";
  #rendered = ""; // the part of the source that the shown HTML stands for
  #tail = null;
  #timer = null;
  #code = null;
  #closed = false;

  constructor() {
    this.element = h("div.block.open");
  }

  set(source, fence) {
    this.#source = source;
    if (fence !== null) this.#showCode(source, fence);
    else if (this.#rendered) this.#showTail();
    else growPlain(this.element, source);
    if (fence === null && source.length <= LONGEST_LIVE) this.#schedule();
  }

  // It shows all of its text until the server's HTML is there.
  close(block) {
    this.set(block, this.#code && "");
    this.#closed = true;
    clearTimeout(this.#timer);
    this.element.classList.remove("open");
    return this.element;
  }

  #showCode(source, language) {
    if (!this.#code) {
      this.#code = h("code");
      this.element.replaceChildren(box(this.#code, language));
    }
    growPlain(this.#code, source.slice(source.indexOf("\n") + 1).replace(/(^|\n) {0,3}[`~]+\s*$/, "$1"));
  }

  #schedule() {
    if (this.#timer !== null || this.#closed) return;
    this.#timer = setTimeout(() => this.#render(), this.#rendered ? LIVE_EVERY_MS : 60);
  }

  async #render() {
    // dashes below a line would make it a heading for a moment, until they turn out to be a list; white space
    // at the end would be lost, and the words after it would stick to those before
    const source = this.#source.replace(/\n[ \t]*[-=]+[ \t]*$/, "").trimEnd();
    const began = performance.now();
    try {
      const { html } = await renderBlocks([source]);
      if (!this.#closed && !this.#code) this.#put(source, html[0]);
    } catch (error) {
      if (!isNo(error)) throw error;
      // it stays plain until the next try; the finished block is asked for again in any case
    }
    // a busy server is asked less often
    await pause(Math.min(4000, 6 * (performance.now() - began)));
    this.#timer = null;
    if (this.#source !== source && this.#source.length <= LONGEST_LIVE && !this.#code) this.#schedule();
  }

  #put(source, html) {
    this.#rendered = source;
    apply(this.element, html);
    this.#tail = h("span.tail");
    lastTextBox(this.element)?.append(this.#tail);
    this.#showTail();
  }

  #showTail() {
    setText(this.#tail, this.#source.slice(this.#rendered.length));
  }
}

// Where the next words of an open block would stand. Inside a table nothing is shown until its row is whole.
function lastTextBox(element) {
  let box = element;
  for (let next = box.lastElementChild; next; next = box.lastElementChild) {
    if (!next.matches("p, ul, ol, li, blockquote, h1, h2, h3, h4, h5, h6, pre, code, .table")) break;
    if (next.matches(".table")) return null;
    box = next;
  }
  return box;
}

function want(element) {
  const block = sources.get(element);
  if (cache.has(block)) return apply(element, cache.get(block));
  wanted.set(block, [...(wanted.get(block) || []), element]);
  if (!asking) {
    asking = true;
    queueMicrotask(ask);
  }
}

async function ask() {
  let failures = 0;
  while (wanted.size && failures < 5) {
    const blocks = nextBatch();
    try {
      const { html } = await renderBlocks(blocks);
      blocks.forEach((block, index) => arrive(block, html[index]));
      failures = 0;
    } catch (error) {
      if (!isNo(error)) throw error;
      failures += 1; // the text is readable as it is; it is made pretty when the server is back
      await pause(1000 * failures);
    }
  }
  wanted.clear();
  asking = false;
}

function nextBatch() {
  const blocks = [];
  let characters = 0;
  for (const block of wanted.keys()) {
    if (blocks.length && (blocks.length >= BATCH_BLOCKS || characters + block.length > BATCH_CHARACTERS)) break;
    blocks.push(block);
    characters += block.length;
  }
  return blocks;
}

function arrive(block, html) {
  if (cache.size >= CACHED) cache.delete(cache.keys().next().value);
  cache.set(block, html);
  for (const element of wanted.get(block) || []) if (sources.get(element) === block) apply(element, html);
  wanted.delete(block);
}

// The HTML is sanitised on the server; what is added here is only the page's own.
function apply(element, html) {
  element.classList.remove("plain");
  element.innerHTML = html;
  for (const code of element.querySelectorAll("pre > code")) {
    const language = /language-(\S+)/.exec(code.className)?.[1] || "";
    const pre = code.parentElement;
    pre.replaceWith(box(code, language));
  }
  for (const table of element.querySelectorAll("table")) {
    const box = h("div.table", { tabindex: "0", role: "region", "aria-label": "table" });
    table.replaceWith(box);
    box.append(table);
  }
  for (const text of element.querySelectorAll("p, ul, ol, h1, h2, h3, h4, h5, h6, blockquote, td, th")) {
    text.setAttribute("dir", "auto");
  }
}

const box = (code, language) => codeBox(language || "code", code, { name: `code ${language}`.trim() });

function plain(element, text) {
  element.replaceChildren();
  growPlain(element, text);
}

// Shows plain text in pieces; what is already shown is left alone.
function growPlain(element, text) {
  element.classList.add("plain");
  let piece = element.lastChild;
  let shown = piece ? element.textContent.length - piece.textContent.length : 0;
  do {
    const end = pieceEnd(text, shown);
    piece ??= element.appendChild(h("span.piece"));
    setText(piece, text.slice(shown, end));
    shown = end;
    piece = null;
  } while (shown < text.length);
}

// A piece ends after a line, so that cutting there changes nothing; one without line ends is cut anyway.
function pieceEnd(text, start) {
  if (text.length - start <= PIECE) return text.length;
  const line = text.indexOf("\n", start + PIECE);
  if (line >= 0 && line < start + 2 * PIECE) return line + 1;
  return text.length - start <= 2 * PIECE ? text.length : start + 2 * PIECE;
}
