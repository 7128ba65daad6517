// The wiring: who tells whom, and what is shown of what is known.

import * as api from "./api.js";
import { choose, offerCard } from "./asking.js";
import { attempt, isNo, refused } from "./attempt.js";
import { Composer } from "./composer.js";
import { by, icon } from "./dom.js";
import * as drawer from "./drawer.js";
import { drawHead } from "./head.js";
import { listenToKeys, showKeys } from "./keys.js";
import { applyLook } from "./look.js";
import { loadModels } from "./models.js";
import { tell } from "./notify.js";
import { Opened } from "./opened.js";
import { Overview } from "./overview.js";
import { Follower } from "./scroll.js";
import { Sending } from "./sending.js";
import { showSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { showSignIn, signInFromAddress } from "./signin.js";
import { announce, toast } from "./toast.js";
import { TranscriptView } from "./view.js";
import { showWelcome } from "./welcome.js";
import { ending } from "./words.js";

const SEARCH_LIMIT = 50;
const NOTHING = { turns: [], isRunning: false, stopping: false };

const otherTabs = new BroadcastChannel("timothy");
let frame = null;

const opened = new Opened({ shown, changed: schedule, ended: turnEnded, waiting: turnWaits, refused });
const open = () => opened.conversation;
const follower = new Follower(() => open()?.isRunning ?? false);
const composer = new Composer({ submit: () => sending.submit(), stop });
const overview = new Overview({ changed: listChanged, answered: agree });
const sending = new Sending({ opened, composer, sent, changed: schedule });
const transcript = new TranscriptView(by("transcript"), {
  decide: (id, decision) => attempt(() => open().decide(id, decision)),
  again: (turn) => (turn.meta.outcome === "completed" ? sending.resend(turn, turn.message) : sending.retry("again")),
  continue: () => sending.retry("continue"),
  branch: (turn) => sending.branch(turn.evidence.seq),
  edit: (turn, text) => sending.resend(turn, text),
});
const changeListed = (act) => attempt(act).then(() => overview.ask());
const sidebar = new Sidebar({
  search: (query) => attempt(async () => (await api.listSessions({ query, limit: SEARCH_LIMIT })).sessions),
  rename: (id, title) => changeListed(() => api.changeSession(id, { title })),
  archive: (id, archived) => changeListed(() => api.changeSession(id, { archived })),
  hidden: (id) => opened.id === id && opened.go(null),
  remove: removeSession,
  more: () => overview.showMore(),
});

// --- what happens ---

function shown() {
  follower.toEnd();
  composer.open(opened.id);
  if (!open()) welcome();
  listChanged();
  if (matchMedia("(hover: hover)").matches) composer.focus();
}

function welcome() {
  const hooks = { start: (text) => composer.setText(text), settings: () => showSettings(null) };
  showWelcome(by("welcome"), hooks).catch((error) => {
    if (!isNo(error)) throw error;
    // the overview tells about a server that is away; the welcome is good without its line
  });
}

function sent(id) {
  follower.toEnd();
  otherTabs.postMessage({ id });
  overview.ask();
}

function stop() {
  if (open()?.isRunning) attempt(() => open().stop());
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

// Told outside the page: a conversation has no title before its first turn is over.
function tellOf(from, view, words) {
  tell(words, from.session?.title || view.message?.slice(0, 80) || "", () => opened.go(from.id));
}

function turnEnded(from, view) {
  otherTabs.postMessage({ id: from.id });
  if (from === open()) announce(ending(view) || "answer complete");
  const { type, code } = view.end ?? {};
  tellOf(from, view, code === "stopped" ? code : type === "error" ? "failed" : "done");
  overview.ask();
}

function turnWaits(from, view) {
  const part = view.parts.findLast((one) => one.kind === "permission" && one.decision === null);
  listChanged();
  announce(`Waiting for you${part ? `: ${part.tool} asks for permission` : ""}`);
  tellOf(from, view, "waiting for you");
  offerCard(() => composer.isEmpty && [document.body, by("message")].includes(document.activeElement));
}

function agree() {
  const row = overview.get(opened.id);
  if (row && !sending.isBusy) open().hear(row);
}

// --- showing ---

function listChanged() {
  const waiting = new Set(overview.waiting);
  if (open()?.live?.state === "waiting") waiting.add(opened.id);
  sidebar.update(overview.sessions, { currentId: opened.id, waiting, more: overview.more });
  schedule();
}

function schedule() {
  frame ??= requestAnimationFrame(draw);
}

function draw() {
  frame = null;
  const state = open() ?? NOTHING;
  by("welcome").hidden = open() !== null;
  by("earlier").hidden = !open()?.more;
  transcript.update(state);
  composer.running(state.isRunning, state.stopping);
  drawHead(open(), overview);
  follower.keep();
}

// --- start ---

function signedOut(wrongToken) {
  if (!by("signin").hidden) return;
  overview.stop();
  opened.close();
  by("main").hidden = by("sidebar").hidden = true;
  showSignIn(by("signin"), wrongToken, enter);
}

function enter() {
  by("signin").hidden = true;
  by("main").hidden = by("sidebar").hidden = false;
  overview.ask();
  attempt(loadModels);
  opened.route();
}

async function start() {
  try {
    if (await signInFromAddress()) enter();
    else signedOut(true);
  } catch (error) {
    if (!isNo(error)) throw error;
    enter();
  }
}

function escape() {
  if (drawer.isOpen()) drawer.setDrawer(false);
  else if (open()?.isRunning) stop();
  else document.activeElement?.blur();
}

function listen() {
  by("newer").prepend(icon("down"));
  by("open-settings").onclick = () => showSettings(open()?.session ?? null);
  by("open-keys").onclick = showKeys;
  by("reconnect").onclick = () => open()?.reconnect();
  by("earlier").onclick = () => follower.hold(() => attempt(() => open().loadEarlier()));
  addEventListener("signed-out", () => signedOut(false));
  otherTabs.onmessage = ({ data }) => {
    if (document.hidden) return;
    overview.ask();
    if (data.id === opened.id) open().sync();
  };
  const answer = (number) => () => choose(number, open()?.changedAt);
  listenToKeys({
    "/": () => {
      if (drawer.isNarrow()) drawer.setDrawer(true);
      by("search").focus();
    },
    n: () => opened.go(null),
    i: () => composer.focus(),
    e: () => [...document.querySelectorAll(".user .edit")].at(-1)?.click(),
    "?": showKeys,
    Escape: escape,
    1: answer(1),
    2: answer(2),
    3: answer(3),
  });
}

// A frozen tab, a phone that woke up, a network that came back: ask what is true.
function listenToReturns() {
  const back = () => {
    if (document.hidden || !by("signin").hidden) return;
    overview.seen();
    open()?.visible();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? open()?.hidden() : back()));
  addEventListener("pageshow", (event) => event.persisted && back());
  addEventListener("online", back);
  addEventListener("offline", () => overview.away());
}

applyLook();
listen();
listenToReturns();
drawer.listenToDrawer();
setInterval(() => open()?.isRunning && transcript.tick(open()), 1000);
start();
