// Watching one running turn: one stream at a time, attached again by its cursor until the turn's end was seen.

import { batches, openLive, pause, Refused, RETRY_DELAYS_MS } from "./api.js";

// The server is never silent for longer than its heartbeat (20 s); twice that means a dead connection.
const LONGEST_SILENCE_MS = 45_000;

// A browser opens six connections to one host, all tabs together. So no more than three tabs hold a stream open;
// any further one looks in for a moment, once a second, by the same cursor.
const STREAMS_IN_ALL_TABS = 3;
const NOT_HERE = new Set([401, 404]);
const GLIMPSE_MS = 350;
const BETWEEN_GLIMPSES_MS = 700;

// The right to hold a stream open: a function that gives it back, or null when all are taken.
export async function takeSlot() {
  if (!navigator.locks) return () => {};
  for (let number = 0; number < STREAMS_IN_ALL_TABS; number += 1) {
    const release = await tryLock(`timothy-stream-${number}`);
    if (release) return release;
  }
  return null;
}

function tryLock(name) {
  return new Promise((resolve) => {
    navigator.locks.request(name, { ifAvailable: true }, (lock) => {
      if (!lock) return resolve(null);
      return new Promise((release) => resolve(release));
    });
  });
}

export class Watcher {
  state = "connecting"; // connecting, streaming, reconnecting, lost, paused, over
  attempt = 0;
  #abort = null;
  #wake = null;
  #run = 0;

  // `hooks`: cursor() -> "TURN:SEQ" or "", events(batch), ended(), gone(), changed().
  constructor(sessionId, turnId, hooks) {
    this.sessionId = sessionId;
    this.turnId = turnId;
    this.hooks = hooks;
  }

  get isOver() {
    return this.state === "over";
  }

  // Begins, or begins again: from an open response (of a send), else by attaching.
  start(response = null, release = null) {
    this.#drop();
    this.attempt = 0;
    this.#loop(this.#run, response, release);
  }

  // Drops the stream; `start()` takes it up again.
  pause() {
    this.#drop();
    this.#set("paused");
  }

  close() {
    this.#drop();
    this.#set("over");
  }

  // The network is back, or somebody looks: no need to sit out the delay.
  hurry() {
    this.#wake?.();
  }

  #drop() {
    this.#run += 1;
    this.#abort?.abort();
    this.#wake?.();
  }

  #set(state) {
    if (this.state === state) return;
    this.state = state;
    this.hooks.changed();
  }

  async #loop(run, response, release) {
    while (run === this.#run) {
      const outcome = await this.#attach(run, response, release);
      response = release = null;
      if (run !== this.#run || outcome === "over") return;
      if (outcome === "glimpsed") await this.#rest(BETWEEN_GLIMPSES_MS);
      else if (!(await this.#delay())) return;
    }
  }

  async #delay() {
    if (this.attempt >= RETRY_DELAYS_MS.length) {
      this.#set("lost");
      return false;
    }
    this.attempt += 1;
    this.state = "reconnecting";
    this.hooks.changed();
    await this.#rest(RETRY_DELAYS_MS[this.attempt - 1]);
    return true;
  }

  #rest(milliseconds) {
    const woken = new Promise((resolve) => (this.#wake = resolve));
    return Promise.race([pause(milliseconds), woken]);
  }

  // One connection, to its end. "over": the end was seen, or the server said no; else "cut" or "glimpsed".
  async #attach(run, response, release) {
    const abort = (this.#abort = new AbortController());
    let timer = null;
    const allow = (milliseconds) => {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), milliseconds);
    };
    allow(LONGEST_SILENCE_MS); // before the headers, too
    try {
      release ??= response ? null : await takeSlot();
      const glimpse = !response && !release;
      response ??= await openLive(this.sessionId, this.hooks.cursor(), abort.signal);
      if (run !== this.#run) return "over";
      if (glimpse) allow(GLIMPSE_MS);
      const isOver = await this.#read(run, response, abort.signal, () => glimpse || allow(LONGEST_SILENCE_MS));
      return isOver ? "over" : glimpse && abort.signal.aborted ? "glimpsed" : "cut";
    } catch (error) {
      if (run !== this.#run) return "over";
      if (!(error instanceof Refused) || !NOT_HERE.has(error.status)) return "cut";
      this.#set("over");
      this.hooks.gone();
      return "over";
    } finally {
      clearTimeout(timer);
      release?.();
      abort.abort();
    }
  }

  // Whether the end was seen, or nobody wants to see it any more.
  async #read(run, response, signal, onBytes) {
    try {
      for await (const events of batches(response, signal, onBytes)) {
        if (run !== this.#run) return true;
        this.attempt = 0;
        this.#set("streaming");
        this.hooks.events(events);
        if (events.at(-1).type !== "meta") continue;
        this.#set("over");
        this.hooks.ended();
        return true;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    return false;
  }
}
