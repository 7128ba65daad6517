// The wiring: the address, the list, the open conversation, the keys; what is shown follows from what is known.

import * as api from "./api.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { h, icon, isEditable, setText, uuid } from "./dom.js";
import { showExport } from "./export.js";
import { listenToKeys, showKeys } from "./keys.js";
import { applyLook } from "./look.js";
import { setTitle, tell } from "./notify.js";
import { showSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { showSignIn, signInFromAddress } from "./signin.js";
import { announce, toast } from "./toast.js";
import { TranscriptView } from "./view.js";
import { showWelcome } from "./welcome.js";
import { ending, titleOf } from "./words.js";

const LIST_EVERY_MS = 900; // so that two windows agree within a second
const LIST_EVERY_AT_REST_MS = 5000;
const REST_AFTER_MS = 10 * 60_000;
const LIST_STEP = 50;
const LIST_MOST = 500;
const AT_END_PX = 60;

const by = (id) => document.getElementById(id);
const models = { ids: [], chosen: localStorage.getItem("timothy:model") ?? "" };
const list = { sessions: [], more: false, limit: LIST_STEP, waiting: new Set(), away: false, timer: null, lastTouch: Date.now() };
const otherTabs = new BroadcastChannel("timothy");

let open = null; // the Conversation that is shown, or null for a new one
let following = true; // the reader is at the end
let frame = null;
let sending = false;

const page = {
  currency: "USD",
  decide: (id, decision) => attempt(() => open.decide(id, decision)),
  again: (turn) => (turn.meta.outcome === "completed" ? resend(turn, turn.message) : retry("again")),
  continue: () => retry("continue"),
  branch: (turn) => attempt(() => branch(turn.evidence.seq)),
  edit: (turn, text) => resend(turn, text),
};
const transcript = new TranscriptView(by("transcript"), page);
const composer = new Composer({ submit, stop });
const sidebar = new Sidebar({
  search: (query) => attempt(async () => (await api.listSessions({ query, limit: LIST_STEP })).sessions),
  rename: (id, title) => attempt(() => api.changeSession(id, { title })).then(refresh),
  archive: (id, archived) => attempt(() => api.changeSession(id, { archived })).then(refresh),
  exportAs: showExport,
  hidden: (id) => open?.id === id && go("#/"),
  remove: (id) =>
    api.deleteSession(id).then(refresh, (error) => {
      toast(error.code === "turn_in_flight" ? "Not deleted: an answer is still running in it" : error.message);
      throw error;
    }),
  more: () => {
    list.limit = Math.min(LIST_MOST, list.limit + LIST_STEP);
    return refresh();
  },
});

// --- the address ---

function go(hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

function route() {
  if (location.hash.startsWith("#token=")) return start();
  const id = /^#\/s\/([^/]+)$/.exec(location.hash)?.[1] ?? null;
  closeDrawer();
  if (id !== (open?.id ?? null)) show(id === null ? null : conversation(decodeURIComponent(id)));
  else if (id === null) show(null);
}

function conversation(id, session = null) {
  const made = new Conversation(
    id,
    {
      changed: schedule,
      ended: (view) => turnEnded(made, view),
      waiting: (view) => turnWaits(made, view),
      lostSession: () => {
        if (open !== made) return;
        toast("This conversation is gone.");
        history.replaceState(null, "", "#/");
        show(null);
      },
      refused: signedOutOr((error) => toast(error.message)),
    },
    session,
  );
  return made;
}

function show(next) {
  open?.close();
  open = next;
  following = true;
  composer.open(open?.id ?? null);
  if (open && !open.loaded) open.sync();
  if (!open) welcome();
  schedule();
  showList();
  if (matchMedia("(hover: hover)").matches) composer.focus();
}

function welcome() {
  const hooks = { start: (text) => composer.setText(text), settings: () => showSettings("Models") };
  showWelcome(by("welcome"), hooks).catch((error) => {
    if (!(error instanceof api.Refused || error instanceof api.Unreachable)) throw error;
    // the list's own question tells about a server that is away; the welcome is good without its line
  });
}

// --- doing ---

async function submit() {
  const message = composer.message;
  if (!message || sending) return;
  sending = true;
  composer.sending(true);
  try {
    await deliver(message);
    composer.sent();
    following = true;
    announce("sent");
    otherTabs.postMessage({ id: open.id });
  } catch (error) {
    notDelivered(error);
  } finally {
    sending = false;
    composer.sending(false);
    schedule();
  }
  refresh();
}

async function deliver(message) {
  const key = composer.key;
  if (!open) {
    const session = await api.createSession();
    open = conversation(session.id, session);
    composer.adopt(session.id);
    history.replaceState(null, "", `#/s/${session.id}`);
  }
  await open.send({ message, key, model: models.chosen || undefined });
}

// The text stays where it was typed, with what became of it.
function notDelivered(error) {
  if (error instanceof api.Unreachable) {
    composer.notSent("Not sent: the server cannot be reached. Send it again when it is back.", { mayHaveArrived: true });
  } else if (error instanceof api.Refused && error.code === "turn_in_flight") {
    toast("An answer is already running here. Your text is kept.");
    composer.notSent("", { mayHaveArrived: false });
    open.sync();
  } else if (error instanceof api.Refused) {
    signedOutOr(() => composer.notSent(`Not sent: ${error.message}`, { mayHaveArrived: false }))(error);
  } else throw error;
}

function retry(mode) {
  return attempt(async () => {
    try {
      await open.send({ mode, key: uuid(), model: models.chosen || undefined });
      following = true;
      otherTabs.postMessage({ id: open.id });
    } catch (error) {
      if (!(error instanceof api.Refused) || error.status !== 409) throw error;
      toast(error.code === "turn_in_flight" ? "An answer is already running here." : error.message);
      await open.sync();
    }
  });
}

// The same message, or another one in its place, in a new conversation that holds all that came before it.
function resend(turn, text) {
  return attempt(async () => {
    if (!turn.user) return;
    const at = await branch(turn.user.seq - 1);
    await at.send({ message: text, key: uuid(), model: models.chosen || undefined });
  });
}

async function branch(seq) {
  const session = await api.createSession({ from: { session_id: open.id, seq } });
  const next = conversation(session.id, session);
  show(next);
  history.pushState(null, "", `#/s/${session.id}`);
  refresh();
  return next;
}

function stop() {
  if (open?.isRunning) attempt(() => open.stop());
}

// Does it, and says so when the server will not or cannot.
async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    if (error instanceof api.Unreachable) toast("The server cannot be reached.");
    else if (error instanceof api.Refused) signedOutOr(() => toast(error.message))(error);
    else throw error;
    return undefined;
  }
}

function turnEnded(from, view) {
  otherTabs.postMessage({ id: from.id });
  const words = ending(view) || "answer complete";
  if (from === open) announce(words);
  tell(view.end?.code === "stopped" ? "stopped" : "done", titleOf(from.session), () => go(`#/s/${from.id}`));
  refresh();
}

function turnWaits(from, view) {
  const part = view.parts.findLast((one) => one.kind === "permission" && one.decision === null);
  announce(`Waiting for you${part ? `: ${part.tool} asks for permission` : ""}`);
  tell("waiting for you", titleOf(from.session), () => go(`#/s/${from.id}`));
  requestAnimationFrame(() => {
    const card = openCard();
    if (card && composer.isEmpty && (document.activeElement === document.body || isEditable(document.activeElement))) card.focus();
  });
}

const openCard = () => document.querySelector(".permission.is-open");
const CARD_IS_NEW_MS = 400; // a key that was meant for something else does not answer

function choose(number) {
  const card = openCard();
  if (!card || performance.now() - open.changedAt < CARD_IS_NEW_MS) return false;
  card.querySelectorAll("button[data-decision]")[number - 1].click();
  return true;
}

// --- what the server says of all conversations ---

async function refresh() {
  clearTimeout(list.timer);
  try {
    const answer = await api.listSessions({ limit: list.limit });
    list.sessions = answer.sessions;
    list.more = Boolean(answer.next_cursor) && list.limit < LIST_MOST;
    list.away = false;
    await askWhoWaits();
    agree();
  } catch (error) {
    if (error instanceof api.Refused) signedOutOr((refused) => toast(refused.message))(error);
    else if (error instanceof api.Unreachable) list.away = true;
    else throw error;
  }
  showList();
  schedule();
  again();
}

function again() {
  clearTimeout(list.timer);
  if (document.hidden || !by("signin").hidden) return;
  const rests = Date.now() - list.lastTouch > REST_AFTER_MS;
  list.timer = setTimeout(refresh, rests ? LIST_EVERY_AT_REST_MS : LIST_EVERY_MS);
}

async function askWhoWaits() {
  if (!list.sessions.some((session) => session.turn_active)) return void list.waiting.clear();
  const { pending } = await api.get("/v1/permissions/pending");
  list.waiting = new Set(pending.map((one) => one.session_id));
}

// The list knows something of the open conversation that it does not know itself.
function agree() {
  const row = list.sessions.find((session) => session.id === open?.id);
  if (!row || !open.session || sending) return;
  if (row.title !== open.session.title) open.session = { ...open.session, title: row.title };
  const isNews = row.updated_at !== open.toldOf && row.updated_at !== open.session.updated_at;
  if (row.turn_active !== open.isRunning || (isNews && !open.isRunning)) {
    open.toldOf = row.updated_at;
    open.sync();
  }
}

function showList() {
  sidebar.update(list.sessions, { currentId: open?.id ?? null, waiting: list.waiting, more: list.more });
}

// --- showing ---

function schedule() {
  frame ??= requestAnimationFrame(draw);
}

function facts() {
  return {
    turns: open?.turns ?? [],
    isRunning: open?.isRunning ?? false,
    stopping: open?.stopping ?? false,
    changedAt: open?.changedAt ?? 0,
  };
}

function draw() {
  frame = null;
  const state = facts();
  by("welcome").hidden = open !== null;
  by("trouble").hidden = !open?.failure;
  setText(by("trouble"), open?.failure ? `This conversation could not be loaded: ${open.failure.message}` : "");
  by("earlier").hidden = !open?.more;
  transcript.update(state);
  composer.running(state.isRunning, state.stopping);
  drawHead(state);
  drawConnection();
  if (following) toEnd();
  by("newer").hidden = following || !state.isRunning;
}

function drawHead(state) {
  const title = open ? titleOf(open.session) : "New conversation";
  setText(by("title"), title);
  setTitle(open ? title : "");
  const words = !state.isRunning ? "" : open.live.state === "waiting" ? "waiting for you" : state.stopping ? "stopping" : "running";
  setText(by("liveness"), list.away ? "offline" : words);
  by("liveness").dataset.state = list.away ? "offline" : words;
  const from = open?.session?.from;
  by("linked").replaceChildren(...(from ? [h("a", { href: `#/s/${from.session_id}`, text: "branched from here" })] : []));
}

function drawConnection() {
  const state = open?.connection ?? "idle";
  const words = {
    reconnecting: `The connection is lost; trying again (${open?.attempt} of 5).`,
    lost: "The connection is lost. The answer goes on without this page.",
  }[state];
  const text = words ?? (list.away ? "The server cannot be reached." : "");
  setText(by("connection-words"), text);
  by("connection").hidden = !text;
  by("reconnect").hidden = state !== "lost";
}

function toEnd() {
  const scroll = by("scroll");
  scroll.scrollTop = scroll.scrollHeight;
}

function watchScrolling() {
  const scroll = by("scroll");
  const isAtEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < AT_END_PX;
  let last = 0;
  scroll.addEventListener("scroll", () => {
    // only the reader's own move upwards means that the end is no longer followed
    if (isAtEnd()) following = true;
    else if (scroll.scrollTop < last - 2) following = false;
    last = scroll.scrollTop;
    by("newer").hidden = following || !open?.isRunning;
  }, { passive: true });
  new ResizeObserver(() => following && toEnd()).observe(by("column"));
  by("newer").addEventListener("click", () => {
    following = true;
    toEnd();
  });
}

async function showEarlier() {
  const scroll = by("scroll");
  const fromEnd = scroll.scrollHeight - scroll.scrollTop;
  following = false;
  await attempt(() => open.loadEarlier());
  requestAnimationFrame(() => (scroll.scrollTop = scroll.scrollHeight - fromEnd));
}

// --- model ---

async function loadModels() {
  const answer = await attempt(() => api.get("/v1/models"));
  models.ids = answer?.models ?? [];
  const field = by("model");
  const options = models.ids.map((model) => h("option", { value: model.id, text: model.id }));
  field.replaceChildren(h("option", { value: "", text: "automatic" }), ...options);
  if (!models.ids.some((model) => model.id === models.chosen)) models.chosen = "";
  field.value = models.chosen;
  field.hidden = models.ids.length < 2;
}

// --- start ---

function signedOutOr(otherwise) {
  return (error) => (error.status === 401 ? signedOut(false) : otherwise(error));
}

function signedOut(wrongToken) {
  if (!by("signin").hidden) return;
  clearTimeout(list.timer);
  open?.close();
  open = null;
  by("main").hidden = by("sidebar").hidden = true;
  showSignIn(by("signin"), wrongToken, enter);
}

function enter() {
  by("signin").hidden = true;
  by("main").hidden = by("sidebar").hidden = false;
  loadModels();
  refresh();
  open = null;
  route();
}

async function start() {
  try {
    if (await signInFromAddress()) return enter();
    signedOut(true);
  } catch (error) {
    if (!(error instanceof api.Unreachable)) throw error;
    list.away = true;
    enter();
  }
}

function openDrawer() {
  document.body.classList.add("drawer-open");
  by("shade").hidden = false;
  by("drawer").setAttribute("aria-expanded", "true");
  by("search").focus();
}

function closeDrawer() {
  document.body.classList.remove("drawer-open");
  by("shade").hidden = true;
  by("drawer").setAttribute("aria-expanded", "false");
}

function swipes() {
  let from = null;
  addEventListener("touchstart", (event) => (from = event.touches.length === 1 ? event.touches[0] : null), { passive: true });
  addEventListener("touchend", (event) => {
    if (!from) return;
    const right = event.changedTouches[0].clientX - from.clientX;
    const down = Math.abs(event.changedTouches[0].clientY - from.clientY);
    if (right > 60 && down < 40 && from.clientX < 30) openDrawer();
    else if (right < -60 && down < 40 && document.body.classList.contains("drawer-open")) closeDrawer();
  }, { passive: true });
}

function escape() {
  if (document.body.classList.contains("drawer-open")) return closeDrawer();
  if (open?.isRunning) return stop();
  return document.activeElement?.blur();
}

function listen() {
  by("drawer").append(icon("menu"));
  by("newer").prepend(icon("down"));
  by("drawer").addEventListener("click", openDrawer);
  by("shade").addEventListener("click", closeDrawer);
  by("open-settings").addEventListener("click", () => showSettings());
  by("open-keys").addEventListener("click", showKeys);
  by("reconnect").addEventListener("click", () => open?.reconnect());
  by("earlier").addEventListener("click", showEarlier);
  by("model").addEventListener("change", (event) => {
    models.chosen = event.target.value;
    localStorage.setItem("timothy:model", models.chosen);
  });
  listenToKeys({
    "/": () => (matchMedia("(max-width: 800px)").matches && openDrawer(), by("search").focus()),
    n: () => go("#/"),
    i: () => composer.focus(),
    e: () => [...document.querySelectorAll(".user .edit")].at(-1)?.click(),
    j: () => step(1),
    k: () => step(-1),
    "?": showKeys,
    Escape: escape,
    1: () => choose(1),
    2: () => choose(2),
    3: () => choose(3),
  });
  addEventListener("hashchange", route);
  addEventListener("popstate", route);
  otherTabs.addEventListener("message", (event) => {
    if (document.hidden) return;
    refresh();
    if (event.data.id === open?.id) open.sync();
  });
}

function step(by_) {
  const id = sidebar.neighbour(by_);
  if (id) go(`#/s/${id}`);
}

// A frozen tab, a phone that woke up, a network that came back: ask what is true.
function listenToReturns() {
  const back = () => {
    if (document.hidden || !by("signin").hidden) return;
    list.lastTouch = Date.now();
    refresh();
    open?.visible();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? open?.hidden() : back()));
  addEventListener("pageshow", (event) => event.persisted && back());
  addEventListener("online", back);
  addEventListener("offline", () => {
    list.away = true;
    schedule();
  });
  for (const touch of ["pointerdown", "keydown"]) addEventListener(touch, () => (list.lastTouch = Date.now()), { passive: true });
}

applyLook();
listen();
listenToReturns();
watchScrolling();
swipes();
setInterval(() => open?.isRunning && transcript.tick(facts()), 1000);
start();
