// The list of conversations: marks, search, rename, archive, export, delete with undo.

import { button, h, icon, setText } from "./dom.js";
import { toast } from "./toast.js";
import { ago, titleOf } from "./words.js";

const UNDO_MS = 6000;
const SEARCH_AFTER_MS = 200;
const by = (id) => document.getElementById(id);

export class Sidebar {
  #rows = new Map();
  #sessions = [];
  #found = null; // what a search found, or null
  #deleting = new Set();
  #facts = { currentId: null, waiting: new Set() };
  #menu = null;

  // `actions`: search(query), rename(id, title), archive(id, on), remove(id), hidden(id), more().
  constructor(actions) {
    this.actions = actions;
    this.#searches();
    this.#walks();
    by("show-archived").addEventListener("change", () => this.#show());
    by("sessions-more").addEventListener("click", () => actions.more());
  }

  // `sessions` as the API lists them; `facts`: {currentId, waiting: Set of ids, more}.
  update(sessions, facts) {
    this.#sessions = sessions;
    this.#facts = facts;
    this.#show();
  }

  #visible() {
    const archived = by("show-archived").checked;
    const listed = this.#found ?? this.#sessions;
    const current = new Map(this.#sessions.map((session) => [session.id, session]));
    return listed
      .map((session) => current.get(session.id) ?? session)
      .filter((session) => !this.#deleting.has(session.id) && (archived || !session.archived || this.#found));
  }

  #show() {
    const list = by("sessions");
    const shown = this.#visible();
    const rows = new Map();
    shown.forEach((session, index) => {
      const row = this.#rows.get(session.id) ?? new Row(this);
      rows.set(session.id, row);
      row.update(session, this.#facts);
      if (list.children[index] !== row.element) list.insertBefore(row.element, list.children[index] ?? null);
    });
    for (const [id, row] of this.#rows) if (!rows.has(id)) row.element.remove();
    this.#rows = rows;
    by("sessions-empty").hidden = shown.length > 0;
    setText(by("sessions-empty"), this.#found ? "Nothing found." : "No conversations yet.");
    by("sessions-more").hidden = !this.#facts.more || this.#found !== null;
  }

  #searches() {
    const field = by("search");
    let timer = null;
    let asked = 0;
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        const query = field.value.trim();
        const question = ++asked;
        const found = query ? await this.actions.search(query) : null;
        if (question !== asked) return;
        this.#found = found;
        this.#show();
      }, SEARCH_AFTER_MS);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.#focusRow(0, event);
      if (event.key !== "Escape") return;
      event.stopPropagation();
      if (!field.value) field.blur();
      field.value = "";
      field.dispatchEvent(new Event("input"));
    });
  }

  #walks() {
    by("sessions").addEventListener("keydown", (event) => {
      const links = [...by("sessions").querySelectorAll("a")];
      const index = links.indexOf(event.target);
      if (index < 0) return;
      if (event.key === "ArrowDown") this.#focusRow(index + 1, event);
      if (event.key === "ArrowUp") this.#focusRow(index - 1, event);
    });
  }

  #focusRow(index, event) {
    event.preventDefault();
    const links = by("sessions").querySelectorAll("a");
    if (index < 0) by("search").focus();
    else links[Math.min(index, links.length - 1)]?.focus();
  }

  menu(session, row, opener) {
    this.#menu?.remove();
    const item = (label, act) => {
      const chosen = () => {
        close();
        act();
      };
      return button(label, chosen, { role: "menuitem" });
    };
    const menu = h(
      "div",
      { class: "menu", role: "menu", popover: "auto", "aria-label": titleOf(session) },
      item("Rename", () => row.rename()),
      item(session.archived ? "Unarchive" : "Archive", () => this.actions.archive(session.id, !session.archived)),
      item("Export as text", () => download(session.id, "markdown")),
      item("Export everything", () => download(session.id, "jsonl")),
      item("Delete", () => this.remove(session)),
    );
    const close = () => {
      menu.remove();
      opener.setAttribute("aria-expanded", "false");
      opener.focus();
    };
    menu.addEventListener("toggle", (event) => event.newState === "closed" && menu.isConnected && close());
    menu.addEventListener("keydown", (event) => this.#walkMenu(menu, event));
    this.#menu = menu;
    document.body.append(menu);
    menu.showPopover();
    place(menu, opener);
    opener.setAttribute("aria-expanded", "true");
    menu.firstElementChild.focus();
  }

  #walkMenu(menu, event) {
    const items = [...menu.children];
    const index = items.indexOf(document.activeElement);
    const next = { ArrowDown: index + 1, ArrowUp: index - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    items[(next + items.length) % items.length].focus();
  }

  // It goes out of sight now; the request leaves when the time to undo is over.
  remove(session) {
    this.#deleting.add(session.id);
    this.#show();
    this.actions.hidden(session.id);
    const restore = () => {
      this.#deleting.delete(session.id);
      this.#show();
    };
    toast(`Deleted “${titleOf(session)}”`, {
      action: "Undo",
      act: restore,
      stays: UNDO_MS,
      gone: () => this.actions.remove(session.id).catch(restore),
    });
  }
}

function download(id, format) {
  const link = h("a", { href: `/v1/sessions/${id}/export?format=${format}`, download: "" });
  document.body.append(link);
  link.click();
  link.remove();
}

function place(menu, opener) {
  const at = opener.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - menu.offsetWidth - 8));
  const below = at.bottom + 4;
  const fits = below + menu.offsetHeight < innerHeight;
  menu.style.left = `${left}px`;
  menu.style.top = `${fits ? below : Math.max(8, at.top - menu.offsetHeight - 4)}px`;
}

class Row {
  #session = null;
  #title = h("span", { class: "session-title", dir: "auto" });
  #when = h("span", { class: "session-when" });
  #mark = h("span", { class: "mark" });
  #link = h("a", {}, this.#title, this.#mark, this.#when);
  #more = h("button", { type: "button", class: "icon-button", "aria-haspopup": "menu", "aria-expanded": "false" }, icon("dots"));
  element = h("li", {}, this.#link, this.#more);

  constructor(sidebar) {
    this.sidebar = sidebar;
    this.#more.addEventListener("click", () => sidebar.menu(this.#session, this, this.#more));
    this.#link.addEventListener("keydown", (event) => {
      if (event.key === "Delete") sidebar.remove(this.#session);
      if (event.key === "F2") this.rename();
    });
  }

  update(session, facts) {
    this.#session = session;
    this.#link.href = `#/s/${session.id}`;
    if (session.id === facts.currentId) this.#link.setAttribute("aria-current", "page");
    else this.#link.removeAttribute("aria-current");
    setText(this.#title, titleOf(session));
    setText(this.#when, session.archived ? "archived" : ago(session.updated_at));
    const state = facts.waiting.has(session.id) ? "waiting for you" : session.turn_active ? "running" : "";
    this.#mark.dataset.state = state;
    setText(this.#mark, state);
    this.#more.setAttribute("aria-label", `More for ${titleOf(session)}`);
  }

  rename() {
    const field = h("input", { type: "text", maxlength: "200", "aria-label": "title", dir: "auto", class: "rename" });
    field.value = this.#session.title ?? "";
    let open = true; // leaving the page makes a field blur, which would close it twice
    const close = (keep) => {
      if (!open) return;
      open = false;
      const title = field.value.trim();
      field.replaceWith(this.#link);
      this.#link.focus();
      if (keep && title && title !== this.#session.title) this.sidebar.actions.rename(this.#session.id, title);
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") close(true);
      if (event.key === "Escape") close(false);
    });
    field.addEventListener("blur", () => close(true));
    this.#link.replaceWith(field);
    field.focus();
    field.select();
  }
}
