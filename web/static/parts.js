// The pieces of a turn: one small class per kind, each with `element` and `update(part, live)`.

import { button, copyButton, h, setText } from "./dom.js";
import { MarkdownBody } from "./markdown.js";
import { danger, decided, duration, telling, toolState } from "./words.js";

class Text {
  #body = new MarkdownBody();
  element = this.#body.element;

  update(part, live) {
    this.#body.set(part.text, live);
  }
}

// Folded, and filled only while it is open: a model may think for pages.
class Reasoning {
  #text = "";
  #summary = h("summary", { text: "thinking" });
  #body = h("div", { class: "reasoning-text" });
  element = h("details", { class: "reasoning fold" }, this.#summary, this.#body);

  constructor() {
    this.element.addEventListener("toggle", () => this.#fill());
  }

  update(part, live) {
    this.#text = part.text;
    setText(this.#summary, live ? "thinking" : "thoughts");
    this.#fill();
  }

  #fill() {
    if (this.element.open) setText(this.#body, this.#text);
  }
}

class Tool {
  #name = h("span", { class: "tool-name" });
  #telling = h("span", { class: "tool-telling", dir: "ltr" });
  #state = h("span", { class: "tool-state" });
  #summary = h("summary", {}, this.#name, this.#telling, this.#state);
  #body = h("div", { class: "tool-body" });
  #part = null;
  element = h("details", { class: "tool fold" }, this.#summary, this.#body);

  constructor() {
    this.element.addEventListener("toggle", () => this.#fill());
  }

  update(part) {
    if (part === this.#part) return;
    this.#part = part;
    this.element.dataset.status = part.status;
    setText(this.#name, part.name);
    setText(this.#telling, telling(part.input));
    const time = part.durationMs === null ? "" : ` · ${duration(part.durationMs)}`;
    setText(this.#state, toolState(part) + time);
    this.#fill();
  }

  #fill() {
    if (!this.element.open) return;
    const part = this.#part;
    const input = part.input === null ? "" : JSON.stringify(part.input, null, 2);
    this.#body.replaceChildren(
      ...labelled("arguments", input),
      ...labelled(part.truncated ? "result (its beginning)" : "result", part.preview),
    );
  }
}

function labelled(label, text) {
  if (!text) return [];
  const head = h("div", { class: "code-head" }, h("span", { text: label }), copyButton(() => text));
  return [h("div", { class: "code" }, head, h("pre", { tabindex: "0", "aria-label": label, dir: "auto", text }))];
}

// Asks a person, and shows what was said. `decide(id, decision)` comes from the page.
class Permission {
  #part = null;
  #decide;
  #title = h("p", { class: "permission-title" });
  #what = h("pre", { tabindex: "0", dir: "auto", "aria-label": "what will be done" });
  #why = h("p", { class: "permission-why", dir: "auto" });
  #count = h("span", { class: "permission-count" });
  #choices = h("div", { class: "permission-choices" });
  #said = h("p", { class: "permission-said" });
  element = h(
    "section",
    { class: "permission", tabindex: "-1", role: "group", "aria-label": "permission" },
    this.#title,
    this.#what,
    this.#why,
    this.#choices,
    this.#said,
  );

  constructor({ decide }) {
    this.#decide = decide;
    this.#choices.append(
      this.#choice("once", "Allow once", "1"),
      this.#choice("session", "Allow for this conversation", "2"),
      this.#choice("deny", "Deny", "3"),
      this.#count,
    );
  }

  #choice(decision, label, key) {
    const choose = async () => {
      this.#enable(false);
      await this.#decide(this.#part.id, decision);
      this.#enable(true);
    };
    const element = button(label, choose, { "data-decision": decision, "aria-keyshortcuts": key });
    element.append(h("kbd", { text: key, "aria-hidden": "true" }));
    return element;
  }

  #enable(on) {
    for (const choice of this.#choices.querySelectorAll("button")) choice.disabled = !on;
  }

  update(part) {
    const open = part.decision === null;
    if (part !== this.#part) {
      this.#part = part;
      this.element.classList.toggle("is-open", open);
      this.element.dataset.permission = part.id;
      setText(this.#title, open ? `Allow ${part.tool}? It ${danger(part.danger)}.` : `${part.tool} asked`);
      setText(this.#what, described(part.input));
      setText(this.#why, part.rationale || "");
      this.#choices.hidden = !open;
      this.#what.hidden = this.#why.hidden = !open;
      setText(this.#said, open ? "" : `${telling(part.input)} · ${decided(part.decision)}`);
    }
    if (open) this.tick();
  }

  // The seconds that are left to answer.
  tick() {
    const left = Math.max(0, Date.parse(this.#part.expiresAt) - Date.now());
    setText(this.#count, Number.isFinite(left) ? `${duration(Math.ceil(left / 1000) * 1000)} left` : "");
  }
}

function described(input) {
  const entries = Object.entries(input ?? {});
  if (entries.length === 1 && typeof entries[0][1] === "string") return entries[0][1];
  return entries.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");
}

class Notice {
  element = h("p", { class: "notice" });

  update(part) {
    setText(this.element, NOTICES[part.kind](part));
  }
}

const NOTICES = {
  retry: (part) => `trying again in ${duration(part.delayMs)} (${part.code})`,
  failover: (part) => `${part.from} could not answer (${part.code}); ${part.to} goes on`,
  note: (part) => (part.code === "compaction" ? "earlier messages were summed up here" : part.code),
};

const KINDS = {
  text: Text,
  reasoning: Reasoning,
  tool: Tool,
  permission: Permission,
  retry: Notice,
  failover: Notice,
  note: Notice,
};

export const newPart = (kind, page) => new KINDS[kind](page);

// Three calls or more in a row, all over, stand behind one line.
export class ToolGroup {
  #summary = h("summary");
  #list = h("div", { class: "tool-list" });
  #tools = [];
  element = h("details", { class: "tool-group fold" }, this.#summary, this.#list);

  update(parts) {
    const failed = parts.filter((part) => part.status !== "ok").length;
    const names = [...new Set(parts.map((part) => part.name))].slice(0, 3).join(", ");
    setText(this.#summary, `${parts.length} calls: ${names}${failed ? ` · ${failed} not done` : ""}`);
    parts.forEach((part, index) => {
      if (!this.#tools[index]) {
        this.#tools[index] = new Tool();
        this.#list.append(this.#tools[index].element);
      }
      this.#tools[index].update(part);
    });
  }
}
