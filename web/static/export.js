// A conversation as a file: its whole log, or as text to read.

import * as api from "./api.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { textOf } from "./reducer.js";
import { turnsOf } from "./transcript.js";
import { ending, titleOf } from "./words.js";

const PAGE = 500;

export function showExport(id) {
  const button = (label, make) => {
    const element = h("button", { type: "button", text: label });
    element.addEventListener("click", () => make(id));
    return element;
  };
  openDialog(
    "Export",
    h("p", { text: "The text is what you read here. The log is everything: each event of the conversation, as JSON." }),
    h("div", { class: "row" }, button("Text (Markdown)", exportText), button("Log (JSON)", exportLog)),
  );
}

async function exportLog(id) {
  const { session } = await api.readSession(id, { limit: 1 });
  const events = [];
  for (;;) {
    const page = await api.readEvents(id, { after: events.at(-1)?.seq ?? 0, limit: PAGE });
    events.push(...page.events);
    if (page.events.length < PAGE) break;
  }
  save(`${fileName(session)}.json`, "application/json", JSON.stringify({ session, events }, null, 2));
}

async function exportText(id) {
  let answer = await api.readSession(id, { limit: PAGE });
  let items = answer.items;
  while (answer.more) {
    answer = await api.readSession(id, { before: items[0].seq, limit: PAGE });
    items = [...answer.items, ...items];
  }
  const parts = turnsOf(items).flatMap((turn) => [
    turn.user && `**You**\n\n${turn.user.text}`,
    turn.evidence && `**Timothy**\n\n${[textOf(turn), ending(turn) && `*${ending(turn)}*`].filter(Boolean).join("\n\n")}`,
  ]);
  const text = [`# ${titleOf(answer.session)}`, ...parts.filter(Boolean)].join("\n\n");
  save(`${fileName(answer.session)}.md`, "text/markdown", `${text}\n`);
}

function fileName(session) {
  return titleOf(session).replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "conversation";
}

function save(name, type, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
