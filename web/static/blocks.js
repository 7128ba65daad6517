// Markdown cut into its top-level blocks while it grows, so that a finished block is rendered once and left alone.

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const NESTED_FENCE = /^\s*(?:[-*+]|\d{1,9}[.)])?\s*(`{3,}|~{3,})(.*)$/;
const MARKER = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const HEADING = /^ {0,3}#{1,6}(?:\s|$)/;
const UNDECIDED = /^\s*(?:[-*+]|\d{1,9}[.)]?|[`~$]+|#{1,6}|\\\[?)?$/; // a beginning that may yet become any of these
const MATHS = { $$: "$$", "\\[": "\\]" };

export class Blocks {
  #text = "";
  #start = 0; // of the open block
  #scanned = 0; // everything before is whole lines that were looked at
  #fence = null; // the marker of the fence that the scan is inside of
  #maths = null; // the line that would close the mathematics that the scan is inside of
  #list = false; // the open block is a list
  #blank = false; // the line before was blank

  // Takes the whole text so far. Returns the blocks that this finished, in order.
  grow(text) {
    this.#text = text;
    const done = [];
    for (let end; (end = text.indexOf("\n", this.#scanned)) >= 0; this.#scanned = end + 1) {
      this.#line(text.slice(this.#scanned, end), end + 1, done);
    }
    // a paragraph is one long line: it parts from what is above as soon as it shows what it is
    const line = text.slice(this.#scanned);
    if (this.#blank && !UNDECIDED.test(line)) this.#begin(line, done);
    return done;
  }

  // The text is whole. Returns the last blocks.
  finish() {
    const done = [];
    if (this.#blank) this.#begin(this.#text.slice(this.#scanned), done);
    return [...done, this.open].filter((block) => block.trim());
  }

  get open() {
    return this.#text.slice(this.#start);
  }

  // The language of the code that is being written, or null when the open block is no fence.
  get openFence() {
    if (this.#fence === null || this.#list) return null;
    const match = FENCE.exec(this.#text.slice(this.#start, this.#text.indexOf("\n", this.#start)));
    return match ? match[2].trim().split(/\s/)[0] : null;
  }

  #line(line, next, done) {
    if (this.#fence !== null) return this.#insideFence(line, next, done);
    if (this.#maths !== null) {
      if (line.trim().endsWith(this.#maths)) this.#maths = null;
      return;
    }
    if (line.trim() === "") {
      this.#blank = true;
      return;
    }
    this.#begin(line, done);
    const fence = (this.#list ? NESTED_FENCE : FENCE).exec(line);
    if (fence && !(fence[1][0] === "`" && fence[2].includes("`"))) this.#fence = fence[1];
    else if (Object.hasOwn(MATHS, line.trim())) this.#maths = MATHS[line.trim()];
  }

  #insideFence(line, next, done) {
    const marker = line.trim();
    if (marker.length < this.#fence.length || marker !== this.#fence[0].repeat(marker.length)) return;
    this.#fence = null;
    this.#blank = false;
    if (!this.#list) this.#cut(next, done);
  }

  // A line that is not blank: does it start a block of its own?
  #begin(line, done) {
    const first = this.open.slice(0, this.#scanned - this.#start).trim() === "";
    const marker = MARKER.test(line);
    const indented = /^(?: {2,}|\t)/.test(line);
    const continues = this.#list ? marker || indented : indented && /^(?: {4}|\t)/.test(this.open);
    const splits = (this.#blank && !continues) || (!this.#list && (FENCE.test(line) || HEADING.test(line)));
    if (!first && splits) this.#cut(this.#scanned, done);
    if (first || splits) this.#list = marker;
    this.#blank = false;
  }

  #cut(position, done) {
    const block = this.#text.slice(this.#start, position);
    if (block.trim()) done.push(block);
    this.#start = position;
    this.#list = false;
  }
}
