// The log's items as turns: values of the reducer's shape, so that one view shows what runs and what is over.

import { emptyView, textOf } from "./reducer.js";

const EVIDENCE = new Set(["assistant", "partial", "failure"]);

// Items, oldest first, to turns. Each has `key`, `user` (its item, or null) and `evidence` (its item, or null).
export function turnsOf(items) {
  const turns = [];
  for (const item of items) {
    let turn = turns.at(-1);
    if (!turn || item.kind === "user" || turn.evidence || turn.turnId !== item.turn_id) {
      turn = { ...emptyView, parts: [], turnId: item.turn_id, key: item.turn_id ?? `row-${item.seq}`, user: null, evidence: null };
      turns.push(turn);
    }
    take(turn, item);
  }
  return turns;
}

function take(turn, item) {
  if (item.kind === "user") {
    turn.user = item;
    turn.message = item.text;
  } else if (EVIDENCE.has(item.kind)) end(turn, item);
  else turn.parts.push(partOf(item));
}

// An item is a part as it is: both have the fields of the stream's events.
function partOf(item) {
  if (item.kind === "permission") return { ...item, decision: null };
  if (item.kind !== "tool") return item;
  return { ...item, preview: typeof item.result === "string" ? item.result : JSON.stringify(item.result ?? "") };
}

function end(turn, item) {
  turn.evidence = item;
  turn.state = "ended";
  if (item.reasoning) turn.parts.push({ kind: "reasoning", text: item.reasoning });
  if (item.text) turn.parts.push({ kind: "text", text: item.text });
  turn.incomplete = item.incomplete || null;
  turn.end = { ...item, type: item.kind === "assistant" ? "done" : "error" };
  turn.meta = { ...item, outcome: outcomeOf(item) };
}

function outcomeOf(item) {
  if (item.kind === "assistant") return item.incomplete ? "incomplete" : "completed";
  if (item.code === "stopped") return "stopped";
  return item.code === "interrupted" || item.code === "server_shutdown" ? "interrupted" : "failed";
}

// A turn that was watched to its end keeps the order it was seen in, as long as the log holds the same text.
export function asSeen(turn, seen) {
  if (!seen || !seen.end || squeeze(textOf(seen)) !== squeeze(textOf(turn))) return turn;
  return { ...turn, parts: seen.parts };
}

const squeeze = (text) => text.replace(/\s+/g, "");

// What is known after an answer of the server: items by seq, the newest page over what was there.
export function merge(known, answer) {
  const newest = answer.items;
  const overlaps = known.items.length > 0 && newest.length > 0 && newest[0].seq <= known.items.at(-1).seq;
  if (!overlaps || !answer.more) return { items: newest, more: answer.more };
  const earlier = known.items.filter((item) => item.seq < newest[0].seq);
  return { items: [...earlier, ...newest], more: earlier.length ? known.more : answer.more };
}
