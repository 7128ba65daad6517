// One turn as a value: `(view, event) -> view`, the same for a send, a retry and a live stream.
//
// A view is never changed in place. `seq` is the last event it holds; an event it has seen is ignored; a hole
// in the numbers sets `gap`, and the watcher then reads the turn from its start.

import { isRunning } from "./words.js";

export const emptyView = Object.freeze({
  turnId: null,
  seq: 0,
  sessionId: null,
  startedAt: null,
  message: null,
  state: "running", // running, waiting (for a permission), ended
  parts: Object.freeze([]), // text, reasoning, tool, permission, retry, failover: in the order of the stream
  status: null, // {code, message}: what it does while nothing is to be shown
  usage: null,
  incomplete: null, // the reason, once an answer was cut short; a later done does not erase it
  end: null, // {type: "done", finishReason} or {type: "error", code, message, retryable}
  meta: null,
  gap: false,
});

export function reduce(view, event) {
  if (event.type === "turn_started") return started(event);
  if (view.turnId !== null && event.turn_id !== view.turnId) return view;
  if (event.seq <= view.seq) return view;
  if (event.seq > view.seq + 1) return { ...view, gap: true };
  const next = { ...view, turnId: event.turn_id, seq: event.seq };
  if (view.end !== null && event.type !== "meta") return next;
  return Object.hasOwn(FOLDS, event.type) ? FOLDS[event.type](next, event) : next;
}

function started(event) {
  return {
    ...emptyView,
    turnId: event.turn_id,
    seq: event.seq,
    sessionId: event.session_id,
    startedAt: event.started_at,
    message: event.message,
  };
}

const FOLDS = {
  text_delta: (view, event) => grow(view, "text", event.text),
  reasoning_delta: (view, event) => grow(view, "reasoning", event.text),
  tool_call_started: (view, event) => withCall(view, event.call_id, { name: event.name, status: "starting" }),
  tool_call: (view, event) =>
    withCall(view, event.call_id, { name: event.name, input: event.input, status: "running" }),
  tool_result: (view, event) =>
    withCall(view, event.call_id, {
      name: event.name,
      status: event.status,
      preview: event.preview,
      durationMs: event.duration_ms,
      truncated: event.truncated,
    }),
  permission_request: (view, event) => ({
    ...add({ ...view, parts: marked(view.parts, event.call_id, "waiting") }, permission(event)),
    state: "waiting",
  }),
  permission_resolved: resolve,
  status: (view, event) => ({ ...view, status: { code: event.code, message: event.message } }),
  retry: (view, event) =>
    add(view, { kind: "retry", attempt: event.attempt, delayMs: event.delay_ms, code: event.code }),
  failover: (view, event) => add(view, { kind: "failover", from: event.from, to: event.to, code: event.code }),
  usage: (view, event) => ({ ...view, usage: event }),
  incomplete: (view, event) => ({ ...view, incomplete: event.reason }),
  done: (view, event) => finish(view, { type: "done", finishReason: event.finish_reason }),
  error: (view, event) =>
    finish(view, { type: "error", code: event.code, message: event.message, retryable: event.retryable }),
  meta: (view, event) => ({ ...view, state: "ended", meta: event }),
};

function add(view, part) {
  return { ...view, parts: [...view.parts, part], status: null };
}

function grow(view, kind, text) {
  const last = view.parts.at(-1);
  if (last?.kind !== kind) return add(view, { kind, text });
  return { ...view, parts: view.parts.with(-1, { ...last, text: last.text + text }), status: null };
}

function withCall(view, callId, change) {
  const index = view.parts.findLastIndex((part) => part.kind === "tool" && part.callId === callId);
  if (index < 0) return add(view, { ...emptyCall, callId, ...change });
  const call = view.parts[index];
  // the same id again, after its result, is another call
  if (!isRunning(call) && change.status === "starting") return add(view, { ...emptyCall, callId, ...change });
  return { ...view, parts: view.parts.with(index, { ...call, ...change }), status: null };
}

const emptyCall = {
  kind: "tool",
  callId: null,
  name: "",
  input: null,
  status: "starting", // starting, running, waiting (for a person), then ok, error, denied or cancelled
  preview: "",
  durationMs: null,
  truncated: false,
};

export function permission(fields) {
  return {
    kind: "permission",
    id: fields.id,
    callId: fields.call_id,
    tool: fields.tool,
    input: fields.input,
    danger: fields.danger,
    rationale: fields.rationale,
    expiresAt: fields.expires_at,
    decision: null,
  };
}

const marked = (parts, callId, status) =>
  parts.map((part) => (part.kind === "tool" && part.callId === callId && isRunning(part) ? { ...part, status } : part));

function resolve(view, event) {
  const asked = view.parts.find((part) => part.kind === "permission" && part.id === event.id);
  const parts = marked(view.parts, asked?.callId, "running").map((part) =>
    part === asked ? { ...part, decision: event.decision } : part,
  );
  const waits = parts.some((part) => part.kind === "permission" && part.decision === null);
  return { ...view, parts, state: waits ? "waiting" : "running" };
}

// Nothing stays open in a turn that is over.
function finish(view, end) {
  const parts = view.parts.map((part) => {
    if (part.kind === "tool" && isRunning(part)) return { ...part, status: "cancelled" };
    if (part.kind === "permission" && part.decision === null) return { ...part, decision: "cancelled" };
    return part;
  });
  return { ...view, parts, end, state: "ended", status: null };
}

// All the text of a turn, as a person would copy it.
export function textOf(view) {
  return view.parts
    .filter((part) => part.kind === "text")
    .map((part) => part.text)
    .join("");
}
