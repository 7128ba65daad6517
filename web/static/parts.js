// The pieces of a turn: one small class per kind, each with `element` and `update(part, live)`.

import { button, codeBox, h, setText } from "./dom.js";
import { MarkdownBody } from "./markdown.js";
import { danger, decided, duration, telling, toolState } from "./words.js";

class Text {
  #body = new MarkdownBody();
  element = this.#body.element;

  update(part, live) {
    this.#body.set(part.text, live);
  }
}

// Folded, and filled by `fill(part)` only while it is open: a model may think for pages.
class Fold {
  #part = null;
  #body;

  constructor(kind, ...summary) {
    this.#body = h("div", { class: `${kind}-body` });
    this.summary = h("summary", ...summary);
    this.element = h("details", { class: `${kind} fold`, ontoggle: () => this.show(this.#part) }, this.summary, this.#body);
  }

  show(part) {
    this.#part = part;
    if (this.element.open) this.fill(this.#body, part);
  }
}

class Reasoning extends Fold {
  constructor() {
    super("reasoning");
  }

  update(part, live) {
    setText(this.summary, live ? "thinking" : "thoughts");
    this.show(part);
  }

  fill(body, { text }) {
    setText(body, text);
  }
}

class Tool extends Fold {
  #name = h("span.tool-name");
  #telling = h("span.tool-telling", { dir: "ltr" });
  #state = h("span.tool-state");
  #part = null;

  constructor() {
    super("tool");
    this.summary.append(this.#name, this.#telling, this.#state);
  }

  update(part) {
    if (part === this.#part) return;
    this.#part = part;
    this.element.dataset.status = part.status;
    setText(this.#name, part.name);
    setText(this.#telling, telling(part.input));
    const time = part.duration_ms == null ? "" : ` · ${duration(part.duration_ms)}`;
    setText(this.#state, toolState(part) + time);
    this.show(part);
  }

  fill(body, { input, preview, truncated }) {
    body.replaceChildren(
      ...labelled("arguments", input && JSON.stringify(input, null, 2)),
      ...labelled(truncated ? "result (its beginning)" : "result", preview),
    );
  }
}

const labelled = (label, text) => (text ? [codeBox(label, text, { dir: "auto" })] : []);

// Asks a person, and shows what was said. `decide(id, decision)` comes from the page.
class Permission {
  #part = null;
  #decide;
  #title = h("p.permission-title");
  #what = h("pre", { tabindex: "0", dir: "auto", "aria-label": "what will be done" });
  #why = h("p.permission-why", { dir: "auto" });
  #count = h("span.permission-count");
  #choices = h("div.permission-choices");
  #said = h("p.permission-said");
  element = h(
    "section.permission",
    { tabindex: "-1", role: "group", "aria-label": "permission" },
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
    const choose = () => this.#decide(this.#part.id, decision);
    const element = button(label, choose, { "data-decision": decision, "aria-keyshortcuts": key });
    element.append(h("kbd", { text: key, "aria-hidden": "true" }));
    return element;
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
    const left = Math.max(0, Date.parse(this.#part.expires_at) - Date.now());
    setText(this.#count, Number.isFinite(left) ? `${duration(Math.ceil(left / 1000) * 1000)} left` : "");
  }
}

function described(input) {
  const entries = Object.entries(input ?? {});
  if (entries.length === 1 && typeof entries[0][1] === "string") return entries[0][1];
  return entries.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");
}

const NOTICES = {
  retry: (part) => `trying again in ${duration(part.delay_ms)} (${part.code})`,
  failover: (part) => `${part.from} could not answer (${part.code}); ${part.to} goes on`,
  compaction: () => "earlier messages were summed up here",
};

class Notice {
  element = h("p.notice");

  update(part) {
    setText(this.element, NOTICES[part.kind]?.(part) ?? part.kind);
  }
}

const KINDS = { text: Text, reasoning: Reasoning, tool: Tool, permission: Permission };

export const newPart = (kind, page) => new (KINDS[kind] ?? Notice)(page);

// Three calls or more in a row, all over, stand behind one line.
export class ToolGroup {
  #summary = h("summary");
  #list = h("div.tool-list");
  #tools = [];
  element = h("details.tool-group.fold", this.#summary, this.#list);

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
