// The log's items as turns: values of the reducer's shape, so that one view shows what runs and what is over.

import { emptyView, permission, textOf } from "./reducer.js";

const EVIDENCE = new Set(["assistant", "partial", "failure"]);

// Items, oldest first, to turns. Each has `key`, `user` (its item, or null) and `evidence` (its item, or null).
export function turnsOf(items) {
  const turns = [];
  for (const item of items) {
    let turn = turns.at(-1);
    if (!turn || item.kind === "user" || turn.evidence || turn.turnId !== item.turn_id) {
      turn = { ...emptyView, parts: [], turnId: item.turn_id, key: keyOf(item), user: null, evidence: null };
      turns.push(turn);
    }
    take(turn, item);
  }
  return turns;
}

function keyOf(item) {
  return item.turn_id ? `${item.turn_id}` : `row-${item.seq}`;
}

function take(turn, item) {
  if (item.kind === "user") {
    turn.user = item;
    turn.message = item.text;
    turn.startedAt = item.created_at;
  } else if (EVIDENCE.has(item.kind)) end(turn, item);
  else turn.parts.push(partOf(item));
}

function partOf(item) {
  if (item.kind === "permission") return permission(item);
  if (item.kind === "failover") return { kind: "failover", from: item.from, to: item.to, code: item.code };
  if (item.kind === "tool")
    return {
      kind: "tool",
      callId: item.call_id,
      name: item.name,
      input: item.input,
      status: item.status,
      preview: typeof item.result === "string" ? item.result : JSON.stringify(item.result ?? ""),
      durationMs: item.duration_ms ?? null,
      truncated: false,
    };
  return { kind: "note", code: item.kind, seq: item.seq };
}

function end(turn, item) {
  turn.evidence = item;
  turn.state = "ended";
  if (item.reasoning) turn.parts.push({ kind: "reasoning", text: item.reasoning });
  if (item.text) turn.parts.push({ kind: "text", text: item.text });
  turn.incomplete = item.incomplete || null;
  turn.usage = item.usage ?? null;
  turn.end =
    item.kind === "assistant"
      ? { type: "done", finishReason: item.finish_reason }
      : { type: "error", code: item.code, message: item.message, retryable: item.retryable ?? true };
  turn.meta = {
    outcome: outcomeOf(item),
    provider: item.provider ?? null,
    model: item.model ?? null,
    usage: item.usage ?? null,
    cost: item.cost ?? null,
    duration_ms: item.duration_ms ?? null,
  };
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
