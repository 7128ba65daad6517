// The conversation on the page: a keyed list of turns; each turn updates its own pieces and nothing else.

import { shown } from "./attachments.js";
import { button, copyButton, h, isSend, setText } from "./dom.js";
import { newPart, ToolGroup } from "./parts.js";
import { textOf } from "./reducer.js";
import { doing, duration, ending, endingDetail, isRunning, numbers } from "./words.js";

const GROUPED_FROM = 3;

export class TranscriptView {
  #views = new Map();

  // `page`: decide, again, continue, branch, edit.
  constructor(element, page) {
    this.element = element;
    this.page = page;
  }

  // `state`: a Conversation.
  update(state) {
    const fresh = new Map();
    let previous = null;
    state.turns.forEach((turn, index) => {
      const view = this.#views.get(turn.key) ?? new TurnView(this.page);
      fresh.set(turn.key, view);
      view.update(turn, state, index === state.turns.length - 1);
      const next = previous ? previous.nextElementSibling : this.element.firstElementChild;
      if (next !== view.element) this.element.insertBefore(view.element, next);
      previous = view.element;
    });
    for (const [key, view] of this.#views) if (!fresh.has(key)) view.element.remove();
    this.#views = fresh;
  }

  // The words that count seconds.
  tick(state) {
    const last = state.turns.at(-1);
    if (last) this.#views.get(last.key)?.tick(last, state);
  }
}

class TurnView {
  #user = null;
  #parts = [];
  #turn = null;
  #isLast = null;
  #body = h("div.answer");
  #foot = null;
  element = h("article.turn");

  constructor(page) {
    this.page = page;
    this.#foot = new Foot(page);
    this.element.append(this.#body, this.#foot.element);
  }

  update(turn, state, isLast) {
    const isLive = turn.end === null && turn.evidence === null && state.isRunning && isLast;
    this.element.classList.toggle("is-live", isLive);
    this.element.setAttribute("aria-busy", String(isLive));
    if (turn !== this.#turn || isLast !== this.#isLast) {
      this.#showUser(turn);
      this.#showParts(turn.parts, isLive);
      this.#foot.update(turn, isLast, isLive);
      this.#turn = turn;
      this.#isLast = isLast;
    }
    this.tick(turn, state);
  }

  tick(turn, state) {
    if (!this.element.classList.contains("is-live")) return;
    this.#foot.tick(turn, state);
    for (const { view, kind } of this.#parts) if (kind === "permission") view.tick();
  }

  #showUser(turn) {
    if (!turn.user || this.#user) return this.#user?.update(turn);
    this.#user = new UserMessage(this.page);
    this.#user.update(turn);
    this.element.prepend(this.#user.element);
  }

  #showParts(parts, isLive) {
    const segments = segmentsOf(parts);
    segments.forEach((segment, index) => {
      const shown = this.#parts[index];
      if (shown?.kind !== segment.kind) {
        for (const old of this.#parts.splice(index)) old.view.element.remove();
        const view = segment.kind === "group" ? new ToolGroup() : newPart(segment.kind, this.page);
        this.#parts[index] = { kind: segment.kind, view };
        this.#body.append(view.element);
      }
      this.#parts[index].view.update(segment.part, isLive && index === segments.length - 1);
    });
    for (const old of this.#parts.splice(segments.length)) old.view.element.remove();
  }
}

function segmentsOf(parts) {
  const segments = [];
  for (let index = 0; index < parts.length; ) {
    let end = index;
    while (end < parts.length && parts[end].kind === "tool" && !isRunning(parts[end])) end += 1;
    if (end - index >= GROUPED_FROM) {
      segments.push({ kind: "group", part: parts.slice(index, end) });
      index = end;
    } else {
      segments.push({ kind: parts[index].kind, part: parts[index] });
      index += 1;
    }
  }
  return segments;
}

class UserMessage {
  #turn = null;
  #text = h("div.user-text", { dir: "auto" });
  #attachments = h("div.attachments");
  #actions = h("div.actions");
  element = h("div.user", { role: "group", "aria-label": "you" }, this.#attachments, this.#text, this.#actions);

  constructor(page) {
    this.page = page;
    const edit = button("edit", () => this.edit(), { class: "quiet edit" });
    this.#actions.append(copyButton(() => this.#turn.user.text), edit);
  }

  update(turn) {
    this.#turn = turn;
    setText(this.#text, turn.user.text);
    const kept = turn.user.attachments ?? [];
    if (this.#attachments.childElementCount !== kept.length) this.#attachments.replaceChildren(...kept.map(shown));
    this.#actions.style.visibility = Number.isInteger(turn.user.seq) ? "" : "hidden";
  }

  // The text becomes a field; sending it makes a new conversation from here.
  edit() {
    if (this.element.querySelector("textarea")) return;
    const field = h("textarea", { dir: "auto", "aria-label": "edit your message", rows: "3" });
    field.value = this.#turn.user.text;
    const send = h("button", { type: "submit", class: "primary", text: "Send as a new branch" });
    const cancel = button("Cancel", () => close());
    const form = h("form.edit-form", field, h("div.row", send, cancel));
    const close = () => {
      form.replaceWith(this.#text);
      this.#actions.hidden = false;
      this.#actions.lastElementChild.focus();
    };
    field.onkeydown = (event) => {
      if (event.key === "Escape") close();
      else if (isSend(event)) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      if (field.value.trim()) this.page.edit(this.#turn, field.value.trim());
    };
    this.#text.replaceWith(form);
    this.#actions.hidden = true;
    field.focus();
  }
}

// The line under a turn: what it does, or how it ended; what can be done; what it took.
class Foot {
  #turn = null;
  #state = h("span.state");
  #seconds = h("span.seconds");
  #detail = h("p.detail", { dir: "auto" });
  #actions = h("span.actions");
  #numbers = h("dl.numbers");
  #line = h("div.foot-line", this.#state, this.#seconds, this.#actions);
  element = h("div.foot", this.#line, this.#detail, this.#numbers);

  constructor(page) {
    this.page = page;
    this.copy = copyButton(() => textOf(this.#turn));
    this.again = button("again", () => this.page.again(this.#turn), { class: "quiet again" });
    this.continue = button("continue", () => this.page.continue(this.#turn), { class: "quiet continue" });
    this.branch = button("branch", () => this.page.branch(this.#turn), { class: "quiet branch" });
  }

  update(turn, isLast, isLive) {
    this.#turn = turn;
    this.element.dataset.outcome = isLive ? "running" : (turn.meta?.outcome ?? "");
    if (!isLive) {
      setText(this.#state, ending(turn));
      setText(this.#seconds, "");
    }
    const detail = isLive ? "" : endingDetail(turn);
    setText(this.#detail, detail);
    this.#detail.hidden = !detail;
    this.#offer(turn, isLast, isLive);
    this.#numbers.replaceChildren(
      ...numbers(turn).map(([name, value]) => h("div", h("dt", name), h("dd", value))),
    );
  }

  #offer(turn, isLast, isLive) {
    const isUnfinished = turn.meta !== null && turn.meta.outcome !== "completed";
    const offered = isLive
      ? []
      : [
          isLast && turn.meta && this.again,
          isLast && isUnfinished && textOf(turn) && this.continue,
          textOf(turn) && this.copy,
          turn.evidence && textOf(turn) && this.branch,
        ].filter(Boolean);
    const shown = [...this.#actions.children];
    if (shown.length !== offered.length || shown.some((one, index) => one !== offered[index])) {
      this.#actions.replaceChildren(...offered);
    }
  }

  tick(turn, state) {
    const words = doing(turn, state.stopping);
    setText(this.#state, words);
    const quiet = performance.now() - state.changedAt;
    setText(this.#seconds, words && quiet > 3000 ? duration(Math.floor(quiet / 1000) * 1000) : "");
  }
}
