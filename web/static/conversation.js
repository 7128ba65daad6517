// The open conversation: what the log holds, the turn that runs, and the one stream that watches it.
//
// The server is what is true. `sync()` asks it; streams, other tabs and the clock only say when to ask.

import * as api from "./api.js";
import { emptyView, reduce } from "./reducer.js";
import { asSeen, merge, turnsOf } from "./transcript.js";
import { takeSlot, Watcher } from "./watch.js";

const PAGE_OF_ITEMS = 60;
const HIDDEN_KEEPS_STREAM_MS = 5000;
const HIDDEN_ASKS_EVERY_MS = 5000;

export class Conversation {
  session = null;
  live = null; // the reducer's view of the running turn, or of one that ended and is not in the items yet
  changedAt = 0; // when the live view last changed, by performance.now()
  stopping = false;
  loaded = false;
  failure = null; // why it could not be loaded
  #known = { items: [], more: false };
  #seen = new Map(); // turn id -> the live view at its end
  #turns = null;
  #watcher = null;
  #question = 0;
  #closed = false;
  #hiddenTimer = null;
  #syncing = null;
  #askAgain = false;

  // `hooks`: changed(), ended(view), waiting(view), lostSession(), refused(error).
  constructor(id, hooks, session = null) {
    this.id = id;
    this.hooks = hooks;
    this.session = session;
  }

  get more() {
    return this.#known.more;
  }

  get lastSeq() {
    return this.#known.items.at(-1)?.seq ?? 0;
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

  // Every turn, oldest first; the running one last.
  get turns() {
    this.#turns ??= turnsOf(this.#known.items).map((turn) => asSeen(turn, this.#seen.get(turn.turnId)));
    if (!this.live) return this.#turns;
    const index = this.#turns.findLastIndex((turn) => turn.turnId === this.live.turnId);
    const logged = index < 0 ? { user: null, evidence: null } : this.#turns[index];
    if (logged.evidence) return this.#turns;
    const running = { ...this.live, key: this.live.turnId ?? "sending", user: logged.user, evidence: null };
    return index < 0 ? [...this.#turns, running] : this.#turns.with(index, running);
  }

  close() {
    this.#closed = true;
    this.#question += 1;
    clearTimeout(this.#hiddenTimer);
    this.#watcher?.close();
  }

  // Asks the server what is true, and takes it over. Never two questions at once; who asks while one is on its
  // way gets the answer to the next, since the first may already be old.
  sync() {
    if (this.#syncing) {
      this.#askAgain = true;
      return this.#syncing;
    }
    this.#syncing = this.#askUntilFresh().finally(() => (this.#syncing = null));
    return this.#syncing;
  }

  async #askUntilFresh() {
    let answered;
    do {
      this.#askAgain = false;
      answered = await this.#ask();
    } while (this.#askAgain && !this.#closed);
    return answered;
  }

  async #ask() {
    const question = ++this.#question;
    let answer;
    try {
      answer = await api.readSession(this.id, { limit: PAGE_OF_ITEMS });
    } catch (error) {
      if (this.#closed) return false;
      this.#unanswered(error);
      return false;
    }
    // a turn that began meanwhile makes this answer old
    if (this.#closed || question !== this.#question) return false;
    this.#take(answer);
    return true;
  }

  #unanswered(error) {
    if (error instanceof api.Refused && error.status === 404) this.hooks.lostSession();
    else if (error instanceof api.Refused) this.hooks.refused(error);
    if (!this.loaded) this.failure = error;
    this.hooks.changed();
  }

  #take(answer) {
    this.session = answer.session;
    this.#known = merge(this.#known, answer);
    this.#turns = null;
    this.loaded = true;
    this.failure = null;
    if (answer.turn_active && answer.turn) {
      this.stopping ||= answer.turn.state === "stopping";
      this.#follow(answer.turn.id);
    } else this.#settle();
    this.hooks.changed();
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
    const before = this.#known.items[0]?.seq;
    const answer = await api.readSession(this.id, { before, limit: PAGE_OF_ITEMS });
    if (this.#closed || before !== this.#known.items[0]?.seq) return;
    this.#known = { items: [...answer.items, ...this.#known.items], more: answer.more };
    this.#turns = null;
    this.hooks.changed();
  }

  // Sends a message ({message, model, key}) or retries the last one ({mode, key}). Throws what the API throws.
  async send(request) {
    const slot = await takeSlot();
    try {
      const { turnId, response } = await api.startTurn(this.id, { ...request, detached: !slot });
      this.#begin(turnId, request.message, response, slot);
    } catch (error) {
      slot?.();
      throw error;
    }
  }

  #begin(turnId, message, response, slot) {
    this.#question += 1; // an answer that is still on its way does not know this turn
    this.stopping = false;
    if (message !== undefined) this.#sent(turnId, message);
    this.#follow(turnId, response, slot);
    this.hooks.changed();
    if (!this.session) this.sync();
  }

  // The message stands in the log now; its row's number comes with the next answer.
  #sent(turnId, text) {
    const seq = this.lastSeq + 0.5;
    const item = { seq, turn_id: turnId, kind: "user", text, created_at: new Date().toISOString() };
    if (this.#known.items.some((known) => known.kind === "user" && known.turn_id === turnId)) return;
    this.#known = { ...this.#known, items: [...this.#known.items, item] };
    this.#turns = null;
    this.loaded = true;
  }

  #follow(turnId, response = null, slot = null) {
    if (!response && this.#seen.has(turnId)) return;
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
      gone: (refused) => (refused.status === 401 ? this.hooks.refused(refused) : this.#lost(turnId)),
      changed: () => this.hooks.changed(),
    };
  }

  // The server knows of no running turn: what became of it stands in the log.
  #lost(turnId) {
    if (this.live?.turnId === turnId) this.sync();
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
    this.#seen.set(this.live.turnId, this.live);
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

  // The tab was hidden: the stream is given up after a while, and the turn is looked after by a plain question.
  hidden() {
    clearTimeout(this.#hiddenTimer);
    this.#hiddenTimer = setTimeout(() => this.#leave(), HIDDEN_KEEPS_STREAM_MS);
  }

  async #leave() {
    if (!document.hidden || this.#closed) return;
    if (this.isRunning && this.#watcher && !this.#watcher.isOver) this.#watcher.pause();
    if (this.isRunning) await this.#askFromAfar();
    this.#hiddenTimer = setTimeout(() => this.#leave(), HIDDEN_ASKS_EVERY_MS);
  }

  async #askFromAfar() {
    const turnId = this.live.turnId;
    let turn;
    try {
      turn = await api.readTurn(this.id, turnId);
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
    clearTimeout(this.#hiddenTimer);
    if (this.connection === "lost") this.#watcher.start();
    else this.#watcher?.hurry();
    return this.sync();
  }
}
