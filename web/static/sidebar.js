// The list of conversations: marks, search, rename, archive, export, delete with undo.

import { button, by, h, icon, setText, walk } from "./dom.js";
import { toast } from "./toast.js";
import { ago, titleOf } from "./words.js";

const SEARCH_AFTER_MS = 200;

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
    by("show-archived").onchange = () => this.#show();
    by("sessions-more").onclick = actions.more;
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
    const search = async () => {
      const query = field.value.trim();
      const question = ++asked;
      const found = query ? await this.actions.search(query) : null;
      if (question !== asked) return;
      this.#found = found;
      this.#show();
    };
    field.oninput = () => {
      clearTimeout(timer);
      timer = setTimeout(search, SEARCH_AFTER_MS);
    };
    field.onkeydown = (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      if (!field.value) field.blur();
      field.value = "";
      search();
    };
  }

  // Up and down lead through the field and the list under it.
  #walks() {
    by("sidebar").onkeydown = (event) => {
      if (!/^Arrow(Up|Down)$/.test(event.key) || !event.target.matches("#search, #sessions a")) return;
      walk([by("search"), ...by("sessions").querySelectorAll("a")], event);
    };
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
      "div.menu",
      {
        role: "menu",
        popover: "auto",
        "aria-label": titleOf(session),
        ontoggle: (event) => event.newState === "closed" && menu.isConnected && close(),
        onkeydown: (event) => walk([...menu.children], event),
      },
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
    this.#menu = menu;
    document.body.append(menu);
    menu.showPopover();
    place(menu, opener);
    opener.setAttribute("aria-expanded", "true");
    menu.firstElementChild.focus();
  }

  // It goes out of sight now; the request leaves when the time to undo is over.
  remove(session) {
    this.#deleting.add(session.id);
    const { element } = this.#rows.get(session.id);
    const next = element.contains(document.activeElement) && (element.nextElementSibling ?? element.previousElementSibling);
    this.#show();
    if (next) next.querySelector("a").focus();
    this.actions.hidden(session.id);
    const restore = () => {
      this.#deleting.delete(session.id);
      this.#show();
    };
    toast(`Deleted “${titleOf(session)}”`, {
      action: "Undo",
      act: restore,
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
  #title = h("span.session-title", { dir: "auto" });
  #when = h("span.session-when");
  #mark = h("span.mark");
  #more = h(
    "button",
    { type: "button", class: "icon-button", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => this.#menu() },
    icon("dots"),
  );
  #link = h("a", { onkeydown: (event) => this.#pressed(event) }, this.#title, this.#mark, this.#when);
  element = h("li", this.#link, this.#more);

  constructor(sidebar) {
    this.sidebar = sidebar;
  }

  #menu() {
    this.sidebar.menu(this.#session, this, this.#more);
  }

  #pressed({ key }) {
    if (key === "Delete") this.sidebar.remove(this.#session);
    if (key === "F2") this.rename();
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
    field.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Enter") close(true);
      if (event.key === "Escape") close(false);
    };
    field.onblur = () => close(true);
    this.#link.replaceWith(field);
    field.focus();
    field.select();
  }
}
