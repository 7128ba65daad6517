import assert from "node:assert/strict";
import { test } from "node:test";

import { asSeen, merge, turnsOf } from "../../web/static/transcript.js";
import { doing, duration, ending, money, numbers } from "../../web/static/words.js";
import { emptyView } from "../../web/static/reducer.js";

const user = (seq, turn_id, text = "hello") => ({ seq, turn_id, kind: "user", text, created_at: "2026-01-02T03:04:05Z" });
const assistant = (seq, turn_id, more = {}) => ({
  seq, turn_id, kind: "assistant", text: "hi", finish_reason: "stop", provider: "p", model: "m",
  usage: { input_tokens: 1, output_tokens: 2, cached_tokens: null }, cost: null, duration_ms: 1500, ...more,
});
const partial = (seq, turn_id, code) => ({ seq, turn_id, kind: "partial", text: "ha", final: true, code, message: "words", duration_ms: 12_000 });

test("a message and its answer are one turn", () => {
  const [turn, ...rest] = turnsOf([user(2, "a"), assistant(3, "a")]);
  assert.deepEqual(rest, []);
  assert.equal(turn.user.seq, 2);
  assert.equal(turn.evidence.seq, 3);
  assert.equal(turn.meta.outcome, "completed");
});

test("a retry is a turn without a message of its own", () => {
  const turns = turnsOf([user(2, "a"), partial(3, "a", "stopped"), assistant(4, "b")]);
  assert.deepEqual(turns.map((turn) => [turn.turnId, turn.user?.seq ?? null]), [["a", 2], ["b", null]]);
});

test("copied rows without a turn's id still part at messages", () => {
  const turns = turnsOf([user(2, null), assistant(3, null), user(4, null), partial(5, null, "stopped")]);
  assert.equal(turns.length, 2);
  assert.equal(new Set(turns.map((turn) => turn.key)).size, 2);
});

test("a running turn has its message and no evidence", () => {
  const [turn] = turnsOf([user(2, "a")]);
  assert.equal(turn.evidence, null);
  assert.equal(turn.end, null);
});

test("a turn that was watched keeps its order when the log holds the same text", () => {
  const [turn] = turnsOf([user(2, "a"), assistant(3, "a", { text: "one\n\ntwo" })]);
  const parts = [{ kind: "text", text: "one" }, { kind: "tool" }, { kind: "text", text: "two" }];
  const seen = { ...emptyView, parts, end: { type: "done" } };
  assert.deepEqual(asSeen(turn, seen).parts, parts);
  assert.deepEqual(asSeen(turn, { ...seen, parts: parts.slice(0, 1) }).parts, turn.parts);
});

test("a page of newer items joins what is known", () => {
  const known = { items: [user(2, "a"), assistant(3, "a"), user(4.5, "b")], more: true };
  const merged = merge(known, { items: [assistant(3, "a"), user(5, "b"), assistant(6, "b")], more: true });
  assert.deepEqual(merged.items.map((item) => item.seq), [2, 3, 5, 6]);
  assert.equal(merged.more, true);
});

test("a page that does not reach what is known replaces it", () => {
  const merged = merge({ items: [user(2, "a")], more: false }, { items: [user(90, "z")], more: true });
  assert.deepEqual(merged.items.map((item) => item.seq), [90]);
});

test("every end is said in words with its code", () => {
  const said = (code) => ending(turnsOf([user(2, "a"), partial(3, "a", code)])[0]);
  assert.equal(said("stopped"), "stopped by you after 12 s");
  assert.match(said("stream_cut"), /^cut: .*\(stream_cut\)$/);
  assert.match(said("rate_limited"), /^failed: .*\(rate_limited\)$/);
  assert.match(said("interrupted"), /^interrupted: the server restarted \(interrupted\)$/);
  assert.equal(said("a_code_from_tomorrow"), "failed (a_code_from_tomorrow)");
  assert.equal(ending(turnsOf([assistant(3, "a")])[0]), "");
  assert.match(ending(turnsOf([assistant(3, "a", { incomplete: "length" })])[0]), /^cut short/);
});

test("what is not known is unknown, never nought", () => {
  const [turn] = turnsOf([assistant(3, "a", { usage: null, cost: null, duration_ms: null })]);
  assert.deepEqual(numbers(turn), [["model", "m on p"], ["tokens", "unknown"], ["time", "unknown"], ["cost", "unknown"]]);
  assert.equal(money(0), "0.00");
});

test("a running turn says what it does", () => {
  const view = { ...emptyView, seq: 1 };
  assert.equal(doing(view, false), "waiting for the model");
  assert.equal(doing({ ...view, status: { code: "loading_model", message: "" } }, false), "loading model");
  assert.equal(doing({ ...view, seq: 2, parts: [{ kind: "tool", name: "read_file", status: "running" }] }, false), "running read_file");
  assert.equal(doing({ ...view, seq: 2, parts: [{ kind: "text", text: "a" }] }, false), "");
  assert.equal(doing({ ...view, state: "waiting" }, false), "waiting for you");
  assert.equal(doing(view, true), "stopping");
});

test("times are short", () => {
  assert.deepEqual([80, 1500, 45_000, 150_000, 3_700_000].map(duration), ["80 ms", "1.5 s", "45 s", "2 min 30 s", "1 h 1 min"]);
});
