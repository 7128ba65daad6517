// What the server says of all conversations, asked again and again while somebody looks.

import * as api from "./api.js";
import { isNo } from "./attempt.js";
import { freshly } from "./fresh.js";

const EVERY_MS = 900; // so that two windows agree within a second
const EVERY_AT_REST_MS = 5000;
const REST_AFTER_MS = 10 * 60_000;
const STEP = 50;
const MOST = 500;

export class Overview {
  sessions = [];
  waiting = new Set(); // ids of the conversations that wait for a permission
  more = false;
  trouble = ""; // why the last question had no answer
  isAway = false; // because the server cannot be reached
  #limit = STEP;
  #timer = null;
  #lastTouch = Date.now();
  #stopped = true;

  // `hooks`: changed(), answered().
  constructor(hooks) {
    this.hooks = hooks;
    const touched = () => (this.#lastTouch = Date.now());
    for (const touch of ["pointerdown", "keydown"]) addEventListener(touch, touched, { passive: true });
  }

  get(id) {
    return this.sessions.find((session) => session.id === id) ?? null;
  }

  showMore() {
    this.#limit = Math.min(MOST, this.#limit + STEP);
    return this.ask();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  // Asks now, and from now on.
  ask() {
    this.#stopped = false;
    return this.#ask();
  }

  #ask = freshly(async () => {
    clearTimeout(this.#timer);
    if (this.#stopped) return;
    await this.#askOnce();
    this.hooks.changed();
    this.#planNext();
  });

  seen() {
    this.#lastTouch = Date.now();
    return this.ask();
  }

  away() {
    this.isAway = true;
    this.trouble = "The network is away.";
    this.hooks.changed();
  }

  #planNext() {
    if (document.hidden || this.#stopped) return;
    const rests = Date.now() - this.#lastTouch > REST_AFTER_MS;
    this.#timer = setTimeout(() => this.ask(), rests ? EVERY_AT_REST_MS : EVERY_MS);
  }

  async #askOnce() {
    try {
      const answer = await api.listSessions({ limit: this.#limit });
      this.sessions = answer.sessions;
      this.more = Boolean(answer.next_cursor) && this.#limit < MOST;
      await this.#askWhoWaits();
      this.trouble = "";
      this.isAway = false;
      this.hooks.answered();
    } catch (error) {
      this.#unanswered(error);
    }
  }

  #unanswered(error) {
    if (!isNo(error)) throw error;
    this.isAway = error instanceof api.Unreachable;
    this.trouble = this.isAway ? "The server cannot be reached." : `The server has trouble: ${error.message}`;
  }

  async #askWhoWaits() {
    const isAny = this.sessions.some((session) => session.turn_active);
    const pending = isAny ? (await api.get("/v1/permissions/pending")).pending : [];
    this.waiting = new Set(pending.map((one) => one.session_id));
  }
}
