// What stands around a conversation: its title and state, what it is linked with, how the connection does.

import { by, h, setText } from "./dom.js";
import { setTitle } from "./notify.js";
import { titleOf } from "./words.js";

// `open`: the conversation, or null; `overview`: what is known of the server.
export function drawHead(open, overview) {
  const title = titleOf(open?.session);
  setText(by("title"), title);
  setTitle(open ? title : "");
  const words = overview.isAway ? "offline" : stateOf(open);
  setText(by("liveness"), words);
  by("liveness").dataset.state = words;
  setText(by("trouble"), open?.failure ? `This conversation could not be loaded: ${open.failure.message}` : "");
  by("trouble").hidden = !open?.failure;
  drawLinks(open?.session);
  drawConnection(open, overview);
}

function stateOf(open) {
  if (!open?.isRunning) return "";
  if (open.live.state === "waiting") return "waiting for you";
  return open.stopping ? "stopping" : "running";
}

// A branch and where it came from name each other.
function drawLinks(session) {
  const { origin = null, branches = [] } = session ?? {};
  const link = (id, text) => h("a", { href: `#/s/${id}`, text });
  const links = branches.map((branch) => link(branch.id, `branch: ${titleOf(branch)}`));
  if (origin) links.unshift(link(origin.session_id, "the conversation this was branched from"));
  const same = (all) => [...all].map((one) => one.href + one.textContent).join();
  if (same(by("linked").children) !== same(links)) by("linked").replaceChildren(...links);
}

function drawConnection(open, overview) {
  const state = open?.connection;
  const words = {
    reconnecting: `The connection is lost; trying again (${open?.attempt} of 5).`,
    lost: "The connection is lost. The answer goes on without this page.",
  };
  const text = words[state] ?? overview.trouble;
  setText(by("connection-words"), text);
  by("connection").hidden = !text;
  by("reconnect").hidden = state !== "lost";
}
