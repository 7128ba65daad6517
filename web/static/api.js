// The server's API: JSON calls, and event streams read by fetch.

// The server answered, and the answer was no.
export class Refused extends Error {
  constructor(status, body) {
    super(body.message || `the server answered ${status}`);
    this.status = status;
    this.code = body.error || `http_${status}`;
  }
}

// No answer came: the network, or the server, is not there.
export class Unreachable extends Error {}

// A proxy in front of a server that is restarting says these; to us it is the same as no answer.
const AWAY = new Set([502, 504]);
const SIGN_IN = "/v1/sign-in";
const CALL_TIMEOUT_MS = 20_000;

async function request(method, path, body, { headers = {}, signal } = {}) {
  const keepalive = method === "DELETE"; // it leaves also when the tab is closed
  const options = { method, headers, signal, keepalive, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    options.headers = { ...headers, "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (signal?.aborted) throw signal.reason ?? error;
    throw new Unreachable("The server cannot be reached.", { cause: error });
  }
  if (AWAY.has(response.status)) throw new Unreachable(`The server is away (${response.status}).`);
  if (response.status === 401 && path !== SIGN_IN) dispatchEvent(new Event("signed-out"));
  if (!response.ok) throw new Refused(response.status, await json(response));
  return response;
}

async function json(response) {
  try {
    return (await response.json()) ?? {};
  } catch {
    return {}; // an error page that is not ours has no JSON; its status says enough
  }
}

async function call(method, path, body) {
  try {
    const response = await request(method, path, body, { signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
    return response.status === 204 ? null : await response.json();
  } catch (error) {
    if (error instanceof Refused || error instanceof Unreachable) throw error;
    throw new Unreachable("The server did not answer in time.", { cause: error });
  }
}

function query(parameters) {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

const at = (id, rest = "") => `/v1/sessions/${encodeURIComponent(id)}${rest}`;

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const put = (path, body) => call("PUT", path, body);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path) => call("DELETE", path);

export const signIn = (token) => post(SIGN_IN, { token });
export const listSessions = (parameters) => get(`/v1/sessions${query(parameters)}`);
export const createSession = (body = {}) => post("/v1/sessions", body);
export const readSession = (id, parameters) => get(at(id, query(parameters)));
export const changeSession = (id, change) => patch(at(id), change);
export const deleteSession = (id) => remove(at(id));
export const readTurn = (id, turnId) => get(at(id, `/turns/${turnId}`));
export const stopTurn = (id, turnId) => post(at(id, "/stop"), { turn_id: turnId });
export const decide = (permissionId, decision) => post(`/v1/permissions/${permissionId}`, { decision });
export const renderBlocks = (blocks) => post("/v1/render", { blocks });

// Sends a message, or retries the last one when `mode` is given. The key makes a repeat harmless, so a
// lost answer is asked for again. Resolves to {turnId, response}; response is null for a detached send.
export async function startTurn(id, { message, mode, model, key, detached, attachments = [] }) {
  const headers = { "Idempotency-Key": key, ...(detached && { Prefer: "respond-async" }) };
  const path = at(id, mode ? "/messages/retry" : "/messages");
  const body = { message, mode, model, attachments: attachments.length ? attachments : undefined };
  const response = await patiently(() => request("POST", path, body, { headers }));
  if (response.status === 202) return { turnId: (await response.json()).turn_id, response: null };
  return { turnId: response.headers.get("X-Turn-Id"), response };
}

export const openLive = (id, cursor, signal) => request("GET", at(id, `/live${query({ after: cursor })}`), undefined, { signal });

export const RETRY_DELAYS_MS = [500, 1000, 2000, 4000, 8000];

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function patiently(attempt) {
  for (const delay of RETRY_DELAYS_MS.slice(0, 3)) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      await pause(delay);
    }
  }
  return attempt();
}

// A stream's events in arrays: all that one read brought. Comments wake nobody. `signal` ends it, also in the
// middle of a wait; `onBytes` hears of every byte, comments included.
export async function* batches(response, signal, onBytes) {
  const reader = response.body.getReader();
  const parser = new FrameParser();
  const cancel = () => reader.cancel().catch(() => {}); // already broken, or closed: nothing is left to cancel
  signal.addEventListener("abort", cancel);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      const events = parser.push(value);
      if (events.length) yield events;
    }
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel();
  }
}

// An event is one line of JSON, as docs/api.md says.
export class FrameParser {
  #decoder = new TextDecoder("utf-8");
  #rest = "";

  // The events that are complete after these bytes.
  push(bytes) {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n");
    this.#rest = lines.pop();
    return lines.filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice(6)));
  }
}
