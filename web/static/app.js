// The wiring: the address, the list, the open conversation, the keys; what is shown follows from what is known.

import * as api from "./api.js";
import { readAgain } from "./attachments.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { h, icon, setText, uuid } from "./dom.js";
import * as drawer from "./drawer.js";
import { listenToKeys, showKeys } from "./keys.js";
import { applyLook } from "./look.js";
import { chosenModel, loadModels } from "./models.js";
import { setTitle, tell } from "./notify.js";
import { Overview } from "./overview.js";
import { Follower } from "./scroll.js";
import { showSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { showSignIn, signInFromAddress } from "./signin.js";
import { announce, toast } from "./toast.js";
import { TranscriptView } from "./view.js";
import { showWelcome } from "./welcome.js";
import { ending, titleOf } from "./words.js";

const SEARCH_LIMIT = 50;
const CARD_IS_NEW_MS = 400; // a key that was meant for something else does not answer a question

const by = (id) => document.getElementById(id);
const otherTabs = new BroadcastChannel("timothy");

let open = null; // the Conversation that is shown, or null for a new one
let frame = null;
let sending = false;

const follower = new Follower(() => open?.isRunning ?? false);
const composer = new Composer({ submit, stop });
const overview = new Overview({ changed: listChanged, answered: agree, signedOut: () => signedOut(false) });
const transcript = new TranscriptView(by("transcript"), {
  currency: "",
  decide: (id, decision) => attempt(() => open.decide(id, decision)),
  again: (turn) => (turn.meta.outcome === "completed" ? resend(turn, turn.message) : retry("again")),
  continue: () => retry("continue"),
  branch: (turn) => attempt(() => branch(turn.evidence.seq)),
  edit: resend,
});
const sidebar = new Sidebar({
  search: (query) => attempt(async () => (await api.listSessions({ query, limit: SEARCH_LIMIT })).sessions),
  rename: (id, title) => attempt(() => api.changeSession(id, { title })).then(() => overview.ask()),
  archive: (id, archived) => attempt(() => api.changeSession(id, { archived })).then(() => overview.ask()),
  hidden: (id) => open?.id === id && go("#/"),
  remove: removeSession,
  more: () => overview.showMore(),
});

// --- the address ---

function go(hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

function route() {
  if (location.hash.startsWith("#token=")) return start();
  const match = /^#\/s\/([^/]+)$/.exec(location.hash);
  const id = match ? decodeURIComponent(match[1]) : null;
  drawer.setDrawer(false);
  if (id === null) show(null);
  else if (id !== open?.id) show(conversation(id));
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
      refused: refused,
    },
    session,
  );
  return made;
}

function show(next) {
  open?.close();
  open = next;
  follower.toEnd();
  composer.open(open?.id ?? null);
  if (open && !open.loaded) open.sync();
  if (!open) welcome();
  listChanged();
  if (matchMedia("(hover: hover)").matches) composer.focus();
}

function welcome() {
  const hooks = { start: (text) => composer.setText(text), settings: () => showSettings(null) };
  showWelcome(by("welcome"), hooks).catch((error) => {
    if (!(error instanceof api.Refused || error instanceof api.Unreachable)) throw error;
    // the overview tells about a server that is away; the welcome is good without its line
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
    follower.toEnd();
    otherTabs.postMessage({ id: open.id });
  } catch (error) {
    notDelivered(error);
  } finally {
    sending = false;
    composer.sending(false);
    schedule();
  }
  overview.ask();
}

async function deliver(message) {
  const { key, files } = composer;
  if (!open) {
    const session = await api.createSession();
    open = conversation(session.id, session);
    composer.adopt(session.id);
    history.replaceState(null, "", `#/s/${session.id}`);
  }
  await open.send({ message, key, attachments: files, model: chosenModel() });
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
    composer.notSent(`Not sent: ${error.message}`, { mayHaveArrived: false });
    if (error.status === 401) signedOut(false);
  } else throw error;
}

function retry(mode) {
  return attempt(async () => {
    try {
      await open.send({ mode, key: uuid(), model: chosenModel() });
      follower.toEnd();
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
    const files = await Promise.all((turn.user.attachments ?? []).map(readAgain));
    const at = await branch(turn.user.seq - 1);
    await at.send({ message: text, key: uuid(), attachments: files.filter(Boolean), model: chosenModel() });
    overview.ask();
  });
}

async function branch(seq) {
  const session = await api.createSession({ from: { session_id: open.id, seq } });
  const next = conversation(session.id, session);
  history.pushState(null, "", `#/s/${session.id}`);
  show(next);
  overview.ask();
  return next;
}

function stop() {
  if (open?.isRunning) attempt(() => open.stop());
}

async function removeSession(id) {
  try {
    await api.deleteSession(id);
  } catch (error) {
    toast(error.code === "turn_in_flight" ? "Not deleted: an answer is still running in it." : error.message);
    throw error;
  }
  localStorage.removeItem(`timothy:draft:${id}`);
  overview.ask();
}

// Does it, and says so when the server will not or cannot.
async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    if (error instanceof api.Unreachable) toast("The server cannot be reached.");
    else if (error instanceof api.Refused) refused(error);
    else throw error;
    return undefined;
  }
}

function refused(error) {
  if (error.status === 401) signedOut(false);
  else toast(error.message);
}

// --- what turns do ---

function turnEnded(from, view) {
  otherTabs.postMessage({ id: from.id });
  if (from === open) announce(ending(view) || "answer complete");
  tell(view.end?.code === "stopped" ? "stopped" : "done", titleOf(from.session), () => go(`#/s/${from.id}`));
  overview.ask();
}

function turnWaits(from, view) {
  const part = view.parts.findLast((one) => one.kind === "permission" && one.decision === null);
  listChanged();
  announce(`Waiting for you${part ? `: ${part.tool} asks for permission` : ""}`);
  tell("waiting for you", titleOf(from.session), () => go(`#/s/${from.id}`));
  setTimeout(() => {
    const isFree = document.activeElement === document.body || document.activeElement === by("message");
    if (composer.isEmpty && isFree) openCard()?.focus();
  }, CARD_IS_NEW_MS);
}

const openCard = () => document.querySelector(".permission.is-open");

function choose(number) {
  const card = openCard();
  if (!card || performance.now() - open.changedAt < CARD_IS_NEW_MS) return false;
  card.querySelectorAll("button[data-decision]")[number - 1].click();
  return true;
}

// The overview knows something of the open conversation that it does not know itself.
function agree() {
  const row = overview.get(open?.id);
  if (!row || !open.session || sending) return;
  if (row.title !== open.session.title) open.session = { ...open.session, title: row.title };
  const isNews = row.updated_at !== open.toldOf && row.updated_at !== open.session.updated_at;
  if (row.turn_active !== open.isRunning || (isNews && !open.isRunning)) {
    open.toldOf = row.updated_at;
    open.sync();
  }
}

// --- showing ---

function listChanged() {
  const waiting = new Set(overview.waiting);
  if (open?.live?.state === "waiting") waiting.add(open.id);
  sidebar.update(overview.sessions, { currentId: open?.id ?? null, waiting, more: overview.more });
  schedule();
}

function schedule() {
  frame ??= requestAnimationFrame(draw);
}

function facts() {
  const { turns = [], isRunning = false, stopping = false, changedAt = 0 } = open ?? {};
  return { turns, isRunning, stopping, changedAt };
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
  drawLinks();
  drawConnection();
  follower.keep();
}

function drawHead(state) {
  const title = open ? titleOf(open.session) : "New conversation";
  setText(by("title"), title);
  setTitle(open ? title : "");
  const waits = open?.live?.state === "waiting";
  const words = overview.isAway ? "offline" : !state.isRunning ? "" : waits ? "waiting for you" : state.stopping ? "stopping" : "running";
  setText(by("liveness"), words);
  by("liveness").dataset.state = words;
}

// A branch and where it came from name each other.
function drawLinks() {
  const { origin = null, branches = [] } = open?.session ?? {};
  const link = (id, text) => h("a", { href: `#/s/${id}`, text });
  const links = branches.map((branch) => link(branch.id, `branch: ${titleOf(branch)}`));
  if (origin) links.unshift(link(origin.session_id, "the conversation this was branched from"));
  const shown = [...by("linked").children].map((one) => one.href + one.textContent).join();
  if (shown !== links.map((one) => one.href + one.textContent).join()) by("linked").replaceChildren(...links);
}

function drawConnection() {
  const state = open?.connection ?? "idle";
  const words = {
    reconnecting: `The connection is lost; trying again (${open?.attempt} of 5).`,
    lost: "The connection is lost. The answer goes on without this page.",
  };
  const text = words[state] ?? overview.trouble;
  setText(by("connection-words"), text);
  by("connection").hidden = !text;
  by("reconnect").hidden = state !== "lost";
}

// --- start ---

function signedOut(wrongToken) {
  if (!by("signin").hidden) return;
  overview.stop();
  open?.close();
  open = null;
  by("main").hidden = by("sidebar").hidden = true;
  showSignIn(by("signin"), wrongToken, enter);
}

function enter() {
  by("signin").hidden = true;
  by("main").hidden = by("sidebar").hidden = false;
  overview.ask();
  attempt(loadModels);
  route();
}

async function start() {
  try {
    if (await signInFromAddress()) enter();
    else signedOut(true);
  } catch (error) {
    if (!(error instanceof api.Unreachable)) throw error;
    enter();
  }
}

function escape() {
  if (drawer.isOpen()) drawer.setDrawer(false);
  else if (open?.isRunning) stop();
  else document.activeElement?.blur();
}

function listen() {
  by("newer").prepend(icon("down"));
  by("open-settings").addEventListener("click", () => showSettings(open?.session ?? null));
  by("open-keys").addEventListener("click", showKeys);
  by("reconnect").addEventListener("click", () => open?.reconnect());
  by("earlier").addEventListener("click", () => follower.hold(() => attempt(() => open.loadEarlier())));
  addEventListener("hashchange", route);
  addEventListener("popstate", route);
  otherTabs.addEventListener("message", (event) => {
    if (document.hidden) return;
    overview.ask();
    if (event.data.id === open?.id) open.sync();
  });
  listenToKeys({
    "/": () => {
      if (drawer.isNarrow()) drawer.setDrawer(true);
      by("search").focus();
    },
    n: () => go("#/"),
    i: () => composer.focus(),
    e: () => [...document.querySelectorAll(".user .edit")].at(-1)?.click(),
    "?": showKeys,
    Escape: escape,
    1: () => choose(1),
    2: () => choose(2),
    3: () => choose(3),
  });
}

// A frozen tab, a phone that woke up, a network that came back: ask what is true.
function listenToReturns() {
  const back = () => {
    if (document.hidden || !by("signin").hidden) return;
    overview.seen();
    open?.visible();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? open?.hidden() : back()));
  addEventListener("pageshow", (event) => event.persisted && back());
  addEventListener("online", back);
  addEventListener("offline", () => overview.away());
}

applyLook();
listen();
listenToReturns();
drawer.listenToDrawer();
setInterval(() => open?.isRunning && transcript.tick(facts()), 1000);
start();
