import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { FrameParser } from "../../web/static/api.js";
import { emptyView, reduce, textOf } from "../../web/static/reducer.js";

const data = (name) => new URL(`../data/${name}`, import.meta.url);
const cases = JSON.parse(readFileSync(data("events.json"), "utf8"));

for (const { name, events, view: expected } of cases) {
  test(name, () => {
    const view = events.reduce(reduce, emptyView);
    for (const [key, value] of Object.entries(expected)) assert.deepEqual(view[key], value, key);
  });
}

function frozen(value) {
  if (value && typeof value === "object") Object.values(value).forEach(frozen);
  return Object.freeze(value);
}

test("a view is never changed in place", () => {
  for (const { events } of cases) events.map(frozen).reduce((view, event) => frozen(reduce(view, event)), emptyView);
});

test("an event of a later version is passed over", () => {
  const [started, text] = cases[0].events;
  const unknown = { type: "toString", seq: 3, turn_id: text.turn_id };
  const view = [started, text, unknown].reduce(reduce, emptyView);
  assert.equal(view.seq, 3);
  assert.equal(textOf(view), "Hel");
});

test("any way to cut the bytes gives the same events", () => {
  const bytes = readFileSync(data("events.sse"));
  const expected = [...cases[0].events, ...cases[11].events];
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const parser = new FrameParser();
    const events = [...parser.push(bytes.subarray(0, cut)), ...parser.push(bytes.subarray(cut))];
    assert.deepEqual(events, expected);
  }
});

test("a call that asks a person waits for that person, and runs once it was allowed", () => {
  const turn = { turn_id: "t", session_id: "s" };
  const events = [
    { type: "turn_started", seq: 1, ...turn },
    { type: "tool_call", seq: 2, ...turn, call_id: "c", name: "write_file", input: { path: "a" } },
    { type: "permission_request", seq: 3, ...turn, id: "p", call_id: "c", tool: "write_file", input: { path: "a" } },
    { type: "permission_resolved", seq: 4, ...turn, id: "p", decision: "once" },
  ];
  const states = [];
  events.reduce((view, event) => {
    const next = reduce(view, event);
    states.push([next.state, next.parts.find((part) => part.kind === "tool")?.status]);
    return next;
  }, emptyView);
  assert.deepEqual(states.slice(1), [["running", "running"], ["waiting", "waiting"], ["running", "running"]]);
});
