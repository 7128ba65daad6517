// States in words: what a turn does now, how it ended, what it took.

const ENDS = {
  stopped: "stopped by you",
  turn_timeout: "cut: the turn reached its time limit",
  stream_cut: "cut: the provider closed the stream before its end",
  gateway_stream_cut: "cut: the gateway closed the stream before its end",
  server_shutdown: "interrupted: the server was shut down",
  interrupted: "interrupted: the server restarted",
};

const FAILURES = {
  turn_aborted: "the turn broke inside the server",
  empty_response: "the model gave an empty answer",
  chain_exhausted: "no provider could answer",
  provider_unreachable: "the provider cannot be reached",
  provider_stalled: "the provider went silent",
  provider_timeout: "the provider took too long",
  provider_error: "the provider had an error",
  malformed_stream: "the provider's answer could not be read",
  bad_request: "the provider refused the request",
  context_overflow: "the conversation is too long for this model",
  auth_failed: "the provider did not accept the key",
  model_not_found: "the provider does not have this model",
  rate_limited: "too many requests at the provider",
  overloaded: "the provider is overloaded",
};

const INCOMPLETE = {
  length: "cut short: the answer reached the model's length limit",
  content_filter: "cut short: the provider's content filter stepped in",
  max_steps: "cut short: the turn reached its limit of steps",
};

const AFTER = new Set(["stopped", "turn_timeout", "stream_cut", "gateway_stream_cut"]);

// One line that says how a turn ended; "" for an answer that is simply whole.
export function ending(turn) {
  if (!turn.end) return "";
  if (turn.end.type === "done") return turn.incomplete ? INCOMPLETE[turn.incomplete] || "cut short" : "";
  const { code } = turn.end;
  const words = ENDS[code] ?? (FAILURES[code] ? `failed: ${FAILURES[code]}` : "failed");
  const after = AFTER.has(code) && turn.meta?.duration_ms ? ` after ${duration(turn.meta.duration_ms)}` : "";
  return `${words}${after}${code === "stopped" ? "" : ` (${code})`}`;
}

// The provider's own words, when they say more than the line above them.
export function endingDetail(turn) {
  if (turn.end?.type !== "error" || turn.end.code === "stopped") return "";
  return turn.end.message || "";
}

// What a running turn does now; "" while its text is flowing.
export function doing(turn, stopping) {
  if (stopping) return "stopping";
  if (turn.state === "waiting") return "waiting for you";
  if (turn.status) return turn.status.message || turn.status.code.replaceAll("_", " ");
  const last = turn.parts.at(-1);
  if (!last || turn.seq <= 1) return "waiting for the model";
  if (last.kind === "reasoning") return "thinking";
  if (last.kind === "tool") return isRunning(last) ? `running ${last.name}` : "reading the result";
  if (last.kind === "retry") return "trying again";
  if (last.kind === "failover") return `waiting for ${last.to}`;
  return "";
}

export const isRunning = (call) => ["starting", "running", "waiting"].includes(call.status);

const DECISIONS = {
  once: "allowed once",
  session: "allowed for this conversation",
  deny: "denied",
  timeout: "not answered in time",
  cancelled: "no longer asked",
};
export const decided = (decision) => DECISIONS[decision] || decision;

const DANGERS = { read: "reads", write: "changes files", execute: "runs a program", network: "reaches the network" };
export const danger = (kind) => DANGERS[kind] || kind;

const STATES = { starting: "running", waiting: "waiting for you", ok: "done" };
export const toolState = (call) => STATES[call.status] || call.status;

// The argument that tells most, on one line.
export function telling(input) {
  if (!input || typeof input !== "object") return "";
  const first = ["command", "path", "url", "query", "expression", "name", "text"].find((key) => input[key]);
  const value = first ? input[first] : Object.values(input)[0];
  if (value == null) return "";
  return String(typeof value === "object" ? JSON.stringify(value) : value).replace(/\s+/g, " ").slice(0, 120);
}

export function duration(milliseconds) {
  if (milliseconds < 950) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const count = (number) => number?.toLocaleString("en") ?? "unknown";

export function money(cost) {
  if (cost == null) return "unknown";
  return cost < 0.01 && cost > 0 ? cost.toPrecision(2) : cost.toFixed(2);
}

// Model, tokens, time and cost of a turn: pairs of a name and a value.
export function numbers(turn) {
  const meta = turn.meta;
  if (!meta) return [];
  const usage = meta.usage ?? turn.usage;
  const model = [meta.model, meta.provider && `on ${meta.provider}`].filter(Boolean).join(" ");
  return [
    ["model", model || "unknown"],
    ["tokens", usage ? `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out` : "unknown"],
    ["time", meta.duration_ms == null ? "unknown" : duration(meta.duration_ms)],
    ["cost", money(meta.cost)],
  ];
}

export function ago(time, now = Date.now()) {
  const minutes = Math.floor((now - Date.parse(time)) / 60_000);
  if (!(minutes >= 1)) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  if (minutes < 7 * 24 * 60) return `${Math.floor(minutes / 1440)} d`;
  return new Date(time).toLocaleDateString();
}

export const titleOf = (session) => session?.title || "New conversation";
