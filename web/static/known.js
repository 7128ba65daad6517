// What is known of a conversation's log, and of turns that were watched and may not stand in it yet.

import { asSeen, merge, turnsOf } from "./transcript.js";

export class Known {
  #items = [];
  #seen = new Map(); // turn id -> the live view at its end
  #turns = null;
  more = false; // the log has older items

  get firstSeq() {
    return this.#items[0]?.seq;
  }

  // An answer of the server, of the newest items.
  take(answer) {
    this.#set(merge({ items: this.#items, more: this.more }, answer));
  }

  // An answer of the server, of the items before the first one.
  takeEarlier({ items, more }) {
    this.#set({ items: [...items, ...this.#items], more });
  }

  // The message stands in the log now; its row's number comes with the next answer.
  sent(turnId, text) {
    if (this.#items.some((item) => item.kind === "user" && item.turn_id === turnId)) return;
    const seq = (this.#items.at(-1)?.seq ?? 0) + 0.5;
    const item = { seq, turn_id: turnId, kind: "user", text, created_at: new Date().toISOString() };
    this.#set({ items: [...this.#items, item], more: this.more });
  }

  saw(view) {
    this.#seen.set(view.turnId, view);
  }

  hasSeenEndOf(turnId) {
    return this.#seen.has(turnId);
  }

  // Every turn, oldest first; the one that runs last, as `live` has it.
  turns(live) {
    this.#turns ??= turnsOf(this.#items).map((turn) => asSeen(turn, this.#seen.get(turn.turnId)));
    if (!live) return this.#turns;
    const index = this.#turns.findLastIndex((turn) => turn.turnId === live.turnId);
    const logged = this.#turns[index] ?? { user: null, evidence: null };
    if (logged.evidence) return this.#turns;
    const running = { ...live, key: live.turnId, user: logged.user, evidence: null };
    return index < 0 ? [...this.#turns, running] : this.#turns.with(index, running);
  }

  #set({ items, more }) {
    this.#items = items;
    this.more = more;
    this.#turns = null;
  }
}
