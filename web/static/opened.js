// Which conversation is open: the address says so, and a step back leads to the one before.

import { Conversation } from "./conversation.js";
import { toast } from "./toast.js";

const addressOf = (id) => (id ? `#/s/${id}` : "#/");

export class Opened {
  conversation = null; // null is a new one

  // `hooks`: shown(), and those of a Conversation, with it as the first argument of ended and waiting.
  constructor(hooks) {
    this.hooks = hooks;
    addEventListener("popstate", () => this.route());
  }

  get id() {
    return this.conversation?.id ?? null;
  }

  go(id) {
    if (location.hash === addressOf(id)) this.route();
    else location.hash = addressOf(id);
  }

  // Shows what the address names.
  route() {
    const match = /^#\/s\/([^/]+)$/.exec(location.hash);
    const id = match ? decodeURIComponent(match[1]) : null;
    if (id === null || id !== this.id) this.#show(id && this.#make(id));
  }

  // Another conversation, with an address of its own.
  turnTo(session) {
    history.pushState(null, "", addressOf(session.id));
    this.#show(this.#make(session.id, session));
    return this.conversation;
  }

  // The new one that was typed into has an id now.
  adopt(session) {
    history.replaceState(null, "", addressOf(session.id));
    this.conversation = this.#make(session.id, session);
    return this.conversation;
  }

  close() {
    this.conversation?.close();
    this.conversation = null;
  }

  #show(next) {
    this.close();
    this.conversation = next;
    if (next && !next.loaded) next.sync();
    this.hooks.shown();
  }

  #make(id, session = null) {
    const { changed, ended, waiting, refused } = this.hooks;
    const made = new Conversation(
      id,
      {
        changed,
        refused,
        ended: (view) => ended(made, view),
        waiting: (view) => waiting(made, view),
        lostSession: () => this.#lost(made),
      },
      session,
    );
    return made;
  }

  #lost(conversation) {
    if (conversation !== this.conversation) return;
    toast("This conversation is gone.");
    history.replaceState(null, "", addressOf(null));
    this.#show(null);
  }
}
