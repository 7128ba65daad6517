// The open conversation: what the log holds, the turn that runs, and the one stream that watches it.
//
// The server is what is true. `sync()` asks it; streams, other tabs and the clock only say when to ask.

import { Absence } from "./absence.js";
import * as api from "./api.js";
import { freshly } from "./fresh.js";
import { Known } from "./known.js";
import { emptyView, reduce } from "./reducer.js";
import { takeSlot, Watcher } from "./watch.js";

const PAGE_OF_ITEMS = 60;
const DEAD_AFTER_MS = 3000; // without a word, while the server has said more

export class Conversation {
  session = null;
  live = null; // the reducer's view of the running turn, or of one that ended and is not in the items yet
  changedAt = 0; // when the live view last changed, by performance.now()
  stopping = false;
  loaded = false;
  failure = null; // why it could not be loaded
  #known = new Known();
  #watcher = null;
  #question = 0;
  #closed = false;
  #absence = new Absence(() => this.#lookFromAfar());
  #toldOf = null; // the change in the list that made it ask

  // `hooks`: changed(), ended(view), waiting(view), lostSession(), refused(error).
  constructor(id, hooks, session = null) {
    this.id = id;
    this.hooks = hooks;
    this.session = session;
  }

  get more() {
    return this.#known.more;
  }

  get isRunning() {
    return this.live !== null && this.live.end === null;
  }

  // "idle", or how its watcher does: connecting, streaming, reconnecting, lost, paused.
  get connection() {
    return this.isRunning && this.#watcher ? this.#watcher.state : "idle";
  }

  get attempt() {
    return this.#watcher?.attempt ?? 0;
  }

  get turns() {
    return this.#known.turns(this.live);
  }

  close() {
    this.#closed = true;
    this.#question += 1;
    this.#absence.end();
    this.#watcher?.close();
  }

  // Asks the server what is true, and takes it over.
  sync = freshly(() => this.#ask());

  async #ask() {
    if (this.#closed) return;
    const question = ++this.#question;
    let answer;
    try {
      answer = await api.readSession(this.id, { limit: PAGE_OF_ITEMS });
    } catch (error) {
      if (!this.#closed) this.#unanswered(error);
      return;
    }
    // a turn that began meanwhile makes this answer old
    if (!this.#closed && question === this.#question) this.#take(answer);
  }

  #unanswered(error) {
    if (error instanceof api.Refused && error.status === 404) this.hooks.lostSession();
    else if (error instanceof api.Refused) this.hooks.refused(error);
    if (!this.loaded) this.failure = error;
    this.hooks.changed();
  }

  #take(answer) {
    this.session = answer.session;
    this.#known.take(answer);
    this.loaded = true;
    this.failure = null;
    if (answer.turn_active && answer.turn) {
      this.stopping ||= answer.turn.state === "stopping";
      this.#follow(answer.turn.id);
      if (this.#isDead(answer.turn)) this.#watcher.start();
    } else this.#settle();
    this.hooks.changed();
  }

  // A stream that broke while the machine slept does not say so: the server is ahead of it, and it is silent.
  #isDead(turn) {
    const isQuiet = performance.now() - this.changedAt > DEAD_AFTER_MS;
    return this.live?.turnId === turn.id && turn.last_seq > this.live.seq && isQuiet && this.connection === "streaming";
  }

  // Nothing runs: no stream, no spinner.
  #settle() {
    const ended = this.isRunning ? this.live : null;
    this.#watcher?.close();
    this.#watcher = null;
    this.live = null;
    this.stopping = false;
    if (ended?.turnId) this.hooks.ended(this.turns.findLast((turn) => turn.turnId === ended.turnId) ?? ended);
  }

  async loadEarlier() {
    const before = this.#known.firstSeq;
    const answer = await api.readSession(this.id, { before, limit: PAGE_OF_ITEMS });
    if (this.#closed || before !== this.#known.firstSeq) return;
    this.#known.takeEarlier(answer);
    this.hooks.changed();
  }

  // Sends a message ({message, model, key}) or retries the last one ({mode, key}). Throws what the API throws.
  async send(request) {
    const slot = await takeSlot();
    try {
      const { turnId, response } = await api.startTurn(this.id, { ...request, detached: !slot });
      if (!this.#closed) return this.#begin(turnId, request.message, response, slot);
      response?.body.cancel(); // somebody turned to another conversation meanwhile; the turn goes on
      slot?.();
    } catch (error) {
      slot?.();
      throw error;
    }
  }

  #begin(turnId, message, response, slot) {
    this.#question += 1; // an answer that is still on its way does not know this turn
    this.stopping = false;
    this.loaded = true;
    if (message !== undefined) this.#known.sent(turnId, message);
    this.#follow(turnId, response, slot);
    this.hooks.changed();
    if (!this.session) this.sync();
  }

  #follow(turnId, response = null, slot = null) {
    if (!response && this.#known.hasSeenEndOf(turnId)) return;
    if (!response && this.#watcher?.turnId === turnId && !this.#watcher.isOver) {
      if (this.#watcher.state === "paused" && !document.hidden) this.#watcher.start();
      return;
    }
    this.#watcher?.close();
    if (this.live?.turnId !== turnId) {
      this.live = { ...emptyView, turnId };
      this.changedAt = performance.now();
    }
    this.#watcher = new Watcher(this.id, turnId, this.#watching(turnId));
    if (document.hidden && !response) this.#watcher.pause();
    else this.#watcher.start(response, slot);
  }

  #watching(turnId) {
    return {
      cursor: () => (this.live?.seq ? `${this.live.turnId}:${this.live.seq}` : ""),
      events: (events) => this.#receive(events),
      ended: () => this.sync(),
      // no running turn is known there: what became of it stands in the log
      gone: () => this.live?.turnId === turnId && this.sync(),
      changed: () => this.hooks.changed(),
    };
  }

  #receive(events) {
    const before = this.live;
    for (const event of events) this.live = reduce(this.live, event);
    if (this.live === before) return;
    if (this.live.gap) return this.#startOver();
    this.changedAt = performance.now();
    if (this.live.meta?.title && this.session) this.session = { ...this.session, title: this.live.meta.title };
    if (this.live.state === "waiting" && before.state !== "waiting") this.hooks.waiting(this.live);
    if (this.live.end && !before.end) this.#ended();
    this.hooks.changed();
  }

  #startOver() {
    this.live = { ...emptyView, turnId: this.live.turnId };
    this.#watcher.start();
  }

  #ended() {
    this.stopping = false;
    this.#known.saw(this.live);
    this.hooks.ended(this.live);
  }

  // Asks for the end and goes on watching until it is seen.
  async stop() {
    if (!this.isRunning || this.stopping) return;
    this.stopping = true;
    this.hooks.changed();
    try {
      await api.stopTurn(this.id, this.live.turnId);
    } catch (error) {
      this.stopping = false;
      if (!(error instanceof api.Refused)) throw error;
      await this.sync(); // it had ended by itself, or another turn runs
    } finally {
      this.hooks.changed();
    }
  }

  // Somebody may have answered elsewhere; how it ended comes with the stream.
  async decide(permissionId, decision) {
    try {
      await api.decide(permissionId, decision);
    } catch (error) {
      if (!(error instanceof api.Refused) || error.status !== 409) throw error;
    }
  }

  reconnect() {
    this.#watcher?.start();
    this.hooks.changed();
  }

  hidden() {
    this.#absence.begin();
  }

  async #lookFromAfar() {
    if (!this.isRunning || this.#closed) return;
    if (!this.#watcher.isOver) this.#watcher.pause();
    let turn;
    try {
      turn = await api.readTurn(this.id, this.live.turnId);
    } catch (error) {
      if (error instanceof api.Refused) await this.sync();
      return; // asked again in a while
    }
    if (turn.state === "ended") await this.sync();
    else if (turn.state === "waiting" && this.live?.state !== "waiting") {
      this.live = { ...this.live, state: "waiting" };
      this.hooks.waiting(this.live);
    }
  }

  // Somebody looks again, or the network is back.
  visible() {
    this.#absence.end();
    if (this.connection === "lost") this.#watcher.start();
    else this.#watcher?.hurry();
    return this.sync();
  }

  // What the list of all conversations says of this one; what is news in it, it asks for.
  hear(row) {
    if (!this.session) return;
    if (row.title !== this.session.title) this.session = { ...this.session, title: row.title };
    const isNews = row.updated_at !== this.#toldOf && row.updated_at !== this.session.updated_at;
    if (row.turn_active === this.isRunning && (!isNews || this.isRunning)) return;
    this.#toldOf = row.updated_at;
    this.sync();
  }
}
