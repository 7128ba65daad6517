// One turn as a value: `(view, event) -> view`, the same for a send, a retry and a live stream.
//
// A view is never changed in place. `seq` is the last event it holds; an event it has seen is ignored; a hole
// in the numbers sets `gap`, and the watcher then reads the turn from its start.

import { isRunning } from "./words.js";

export const emptyView = Object.freeze({
  turnId: null,
  seq: 0,
  message: null,
  state: "running", // running, waiting (for a permission), ended
  parts: Object.freeze([]), // in the order of the stream; each has its `kind`, and its fields as they came
  status: null, // {code, message}: what it does while nothing is to be shown
  usage: null,
  incomplete: null, // the reason, once an answer was cut short; a later done does not erase it
  end: null, // the terminal event
  meta: null,
  gap: false,
});

export function reduce(view, event) {
  const { seq, turn_id: turnId, ...told } = event;
  if (told.type === "turn_started") return { ...emptyView, turnId, seq, message: told.message };
  if (view.turnId !== null && turnId !== view.turnId) return view;
  if (seq <= view.seq) return view;
  if (seq > view.seq + 1) return { ...view, gap: true };
  const next = { ...view, turnId, seq };
  if (view.end !== null && told.type !== "meta") return next;
  return Object.hasOwn(FOLDS, told.type) ? FOLDS[told.type](next, told) : next;
}

const FOLDS = {
  text_delta: (view, { text }) => grow(view, "text", text),
  reasoning_delta: (view, { text }) => grow(view, "reasoning", text),
  tool_call_started: (view, event) => withCall(view, event, "starting"),
  tool_call: (view, event) => withCall(view, event, "running"),
  tool_result: (view, event) => withCall(view, event, event.status),
  permission_request: (view, event) => ({
    ...add({ ...view, parts: marked(view.parts, event.call_id, "waiting") }, { ...part("permission", event), decision: null }),
    state: "waiting",
  }),
  permission_resolved: resolve,
  status: (view, event) => ({ ...view, status: event }),
  retry: (view, event) => add(view, part("retry", event)),
  failover: (view, event) => add(view, part("failover", event)),
  usage: (view, event) => ({ ...view, usage: event }),
  incomplete: (view, event) => ({ ...view, incomplete: event.reason }),
  done: finish,
  error: finish,
  meta: (view, event) => ({ ...view, state: "ended", meta: event }),
};

const part = (kind, { type, ...fields }) => ({ kind, ...fields });

function add(view, one) {
  return { ...view, parts: [...view.parts, one], status: null };
}

function grow(view, kind, text) {
  const last = view.parts.at(-1);
  if (last?.kind !== kind) return add(view, { kind, text });
  return { ...view, parts: view.parts.with(-1, { ...last, text: last.text + text }), status: null };
}

// `status` of a call: starting, running, waiting (for a person), then ok, error, denied or cancelled.
function withCall(view, event, status) {
  const change = { ...part("tool", event), status };
  const index = view.parts.findLastIndex((one) => one.kind === "tool" && one.call_id === event.call_id);
  // the same id again, after its result, is another call
  if (index < 0 || (status === "starting" && !isRunning(view.parts[index]))) return add(view, change);
  return { ...view, parts: view.parts.with(index, { ...view.parts[index], ...change }), status: null };
}

const marked = (parts, callId, status) =>
  parts.map((one) => (one.kind === "tool" && one.call_id === callId && isRunning(one) ? { ...one, status } : one));

function resolve(view, { id, decision }) {
  const asked = view.parts.find((one) => one.kind === "permission" && one.id === id);
  const parts = marked(view.parts, asked?.call_id, "running").map((one) => (one === asked ? { ...one, decision } : one));
  const waits = parts.some((one) => one.kind === "permission" && one.decision === null);
  return { ...view, parts, state: waits ? "waiting" : "running" };
}

// Nothing stays open in a turn that is over.
function finish(view, end) {
  const parts = view.parts.map((one) => {
    if (one.kind === "tool" && isRunning(one)) return { ...one, status: "cancelled" };
    if (one.kind === "permission" && one.decision === null) return { ...one, decision: "cancelled" };
    return one;
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
