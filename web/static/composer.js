// The line to type in: a draft per conversation that survives a reload, and what became of a send.

import { chip, MOST, readFile } from "./attachments.js";
import { by, icon, isSend, newKey } from "./dom.js";
import { toast } from "./toast.js";

const LARGEST_STORED = 1_000_000; // characters of the files in a stored draft

export class Composer {
  #slot = null; // whose draft is shown; none before the first `open`
  #draft = emptyDraft();
  #saving = null;
  #form = by("composer");
  #field = by("message");
  #unsent = by("unsent");

  // `hooks`: submit(), stop().
  constructor(hooks) {
    by("send").append(icon("send"));
    by("stop").append(icon("stop"));
    by("attach").append(icon("clip"));
    this.#form.onsubmit = (event) => {
      event.preventDefault();
      hooks.submit();
    };
    by("stop").onclick = hooks.stop;
    this.#field.oninput = () => this.#edited();
    this.#field.onkeydown = (event) => {
      if (!isSend(event)) return;
      event.preventDefault();
      hooks.submit();
    };
    addEventListener("pagehide", () => this.#save());
    this.#takeFiles();
  }

  focus() {
    this.#field.focus();
  }

  get isEmpty() {
    return this.#field.value.trim() === "" && this.#draft.files.length === 0;
  }

  // What would be sent; a file without words gets its name as its words.
  get message() {
    return this.#field.value.trim() || this.#draft.files.map((file) => file.name).join(", ");
  }

  // What would be sent, and whose draft it is. The key is the same until the text is edited, so that a message
  // that may have arrived is never taken twice.
  letter() {
    this.#draft.key ??= newKey();
    this.#save();
    return { slot: this.#slot, message: this.message, key: this.#draft.key, attachments: this.#draft.files };
  }

  // Turns to the draft of another conversation; null is the one that is not begun yet.
  open(sessionId) {
    this.#save();
    this.#slot = sessionId ?? "new";
    this.#draft = load(this.#slot);
    this.#show();
  }

  // The conversation that was not begun yet has an id now: its draft goes with it.
  adopt(letter, sessionId) {
    this.#save();
    const kept = localStorage.getItem(place(letter.slot));
    localStorage.removeItem(place(letter.slot));
    if (kept) localStorage.setItem(place(sessionId), kept);
    if (this.#slot === letter.slot) this.#slot = sessionId;
    letter.slot = sessionId;
  }

  setText(text) {
    this.#field.value = text;
    this.#edited();
    this.focus();
  }

  sending(on) {
    by("send").disabled = on;
    this.#field.readOnly = on;
    if (on) this.#mark("");
  }

  sent(letter) {
    localStorage.removeItem(place(letter.slot));
    if (letter.slot !== this.#slot) return;
    this.#draft = emptyDraft();
    this.#show();
  }

  // It is still here, or in the draft of the conversation that was left meanwhile. One that may have arrived keeps its key.
  notSent(letter, why, { mayHaveArrived }) {
    if (letter.slot !== this.#slot) return void (why && toast(why));
    if (!mayHaveArrived) this.#draft.key = null;
    this.#mark(why);
    this.#save();
  }

  running(on, stopping) {
    by("stop").hidden = !on;
    by("stop").disabled = stopping;
    by("send").hidden = on && this.isEmpty;
  }

  #edited() {
    this.#draft.key = null;
    this.#mark("");
    this.#fit();
    clearTimeout(this.#saving);
    this.#saving = setTimeout(() => this.#save(), 200);
    if (!by("stop").hidden) by("send").hidden = this.isEmpty;
  }

  #mark(why) {
    this.#draft.unsent = why;
    this.#unsent.textContent = why;
    this.#unsent.hidden = !why;
    this.#form.classList.toggle("is-unsent", Boolean(why));
  }

  #fit() {
    if (CSS.supports("field-sizing", "content")) return;
    this.#field.style.height = "auto";
    this.#field.style.height = `${this.#field.scrollHeight}px`;
  }

  #show() {
    this.#field.value = this.#draft.text;
    this.#mark(this.#draft.unsent);
    this.#showFiles();
    this.#fit();
  }

  #save() {
    clearTimeout(this.#saving);
    if (this.#slot === null) return;
    this.#draft.text = this.#field.value;
    const isEmpty = !this.#draft.text && !this.#draft.files.length;
    if (isEmpty) return void localStorage.removeItem(place(this.#slot));
    const size = this.#draft.files.reduce((sum, file) => sum + (file.text ?? file.data).length, 0);
    const files = size <= LARGEST_STORED ? this.#draft.files : [];
    try {
      localStorage.setItem(place(this.#slot), JSON.stringify({ ...this.#draft, files }));
    } catch (error) {
      // the browser's store is full: the text is still in the field
      if (error.name !== "QuotaExceededError") throw error;
    }
  }

  #takeFiles() {
    const picker = by("picker");
    by("attach").onclick = () => picker.click();
    picker.onchange = () => {
      this.#attach([...picker.files]);
      picker.value = "";
    };
    const take = (event, { files }) => {
      if (!files.length) return;
      event.preventDefault();
      this.#attach([...files]);
    };
    this.#field.onpaste = (event) => take(event, event.clipboardData);
    by("main").ondrop = (event) => take(event, event.dataTransfer);
    by("main").ondragover = (event) => event.preventDefault();
  }

  async #attach(files) {
    for (const file of files) {
      const read = await readFile(file);
      if (typeof read === "string") toast(`${file.name} ${read}.`);
      else if (this.#draft.files.length >= MOST) toast(`At most ${MOST} files go with one message.`);
      else this.#draft.files.push(read);
    }
    this.#filesChanged();
    this.focus();
  }

  #filesChanged() {
    this.#draft.key = null;
    this.#showFiles();
    this.#save();
  }

  #showFiles() {
    const chips = this.#draft.files.map((file) =>
      chip(file, () => {
        this.#draft.files = this.#draft.files.filter((other) => other !== file);
        this.#filesChanged();
      }),
    );
    by("files").replaceChildren(...chips);
  }
}

const place = (slot) => `timothy:draft:${slot}`;
const emptyDraft = () => ({ text: "", key: null, unsent: "", files: [] });

function load(slot) {
  const stored = localStorage.getItem(place(slot));
  return stored ? { ...emptyDraft(), ...JSON.parse(stored) } : emptyDraft();
}
