// The settings: one window, one section per subject.

import * as api from "./api.js";
import { openDialog, saying, trouble } from "./dialog.js";
import { button, h, walk } from "./dom.js";
import { look, setLook } from "./look.js";
import { notifications } from "./notifications.js";
import { beep } from "./notify.js";
import { count, duration, money } from "./words.js";

const check = (checked, text, onchange, more = { type: "checkbox" }) =>
  h("label.check", h("input", { checked, onchange, ...more }), ` ${text}`);
const head = (name, more) => h("div.row", h("strong", name), h("span.muted", more));
const SECTIONS = { Models: providers, Usage: usage, Tools: tools, Memory: memory, Notify: notifications, Look: looks, About: about };

// `session`: the open conversation's, for what can be set in it, or null.
export function showSettings(session, first = "Models") {
  const body = h("div.settings-body", { tabindex: "0", role: "tabpanel" });
  const tabs = h("div.tabs", { role: "tablist" });
  const show = async (name) => {
    for (const tab of tabs.children) {
      const chosen = tab.textContent === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    body.setAttribute("aria-label", name);
    body.replaceChildren(h("p.muted", "asking the server"));
    const content = await Promise.resolve(SECTIONS[name](session)).catch((error) => [trouble(error)]);
    if (body.getAttribute("aria-label") === name) body.replaceChildren(...content);
  };
  for (const name of Object.keys(SECTIONS)) {
    tabs.append(button(name, () => void show(name), { role: "tab" }));
  }
  tabs.onkeydown = (event) => walk([...tabs.children], event)?.click();
  openDialog("Settings", h("div.settings", tabs, body));
  show(first);
}

const EXAMPLE = `[[providers]]
name = "home"
driver = "openai" # or anthropic, ollama
base_url = "http://127.0.0.1:8080/v1"
model = "qwen3-8b"
api_key_env = "HOME_KEY" # an environment variable`;

async function providers() {
  const { providers: chain } = await api.get("/v1/providers");
  const rows = chain.map((entry) =>
    h(
      "li",
      head(entry.name, `${entry.driver} · ${entry.model}`),
      h(entry.healthy ? "p" : "p.warning", (entry.healthy && entry.state) || health(entry)),
      testButton(entry),
    ),
  );
  return [
    h("p", "Asked from the first to the last: the next one takes over when one fails."),
    h("ol.cards", ...rows),
    h("h3", "To add a better model"),
    h("p", "Write an entry into ", h("code", "timothy.toml"), " in the home folder, above the others, and restart the server:"),
    h("pre", { tabindex: "0", "aria-label": "an example", text: EXAMPLE }),
  ];
}

function health({ healthy, cooling_until: until, last_error: error }) {
  if (healthy && !until) return error ? `ready; its last trouble was: ${error}` : "ready";
  const state = until ? `resting until ${new Date(until).toLocaleTimeString()}` : "in trouble";
  return error ? `${state}: ${error}` : state;
}

function testButton(entry) {
  const said = h("span", { role: "status" });
  const test = async () => {
    const result = await api.post("/v1/providers/test", { name: entry.name });
    if (!result.ok) return `${result.code}: ${result.message}. ${result.advice ?? ""}`;
    return `it answered in ${duration(result.duration_ms)}: ${result.text}`;
  };
  return h("div.row", button("Test", () => saying(said, test, "asking it for a word")), said);
}

async function usage() {
  const [days, models] = await Promise.all([api.get("/v1/usage?group=day"), api.get("/v1/usage?group=model")]);
  const total = days.total;
  return [
    h("p", `${count(total.attempts)} requests to models, ${count(total.input_tokens)} tokens in, ${count(total.output_tokens)} out, cost ${cost(total)}.`),
    chart(days.rows.slice(-30)),
    table("By model", models.rows),
    table("By day", days.rows.slice(-30).reverse()),
  ];
}

const cost = (row) =>
  money(row.cost) + (row.cost !== null && row.unpriced_attempts ? ` and ${row.unpriced_attempts} without a known price` : "");

function table(caption, rows) {
  const titles = ["", "requests", "failed", "tokens in", "tokens out", "cost"].map((text) => h("th", { scope: "col", text }));
  const body = rows.map((row) =>
    h(
      "tr",
      h("th", { scope: "row", text: row.key ?? "unknown" }),
      ...[row.attempts, row.error, row.input_tokens, row.output_tokens].map((one) => h("td", count(one))),
      h("td", money(row.cost)),
    ),
  );
  return h(
    "div.table",
    { tabindex: "0", role: "region", "aria-label": caption },
    h("table", h("caption", caption), h("thead", h("tr", ...titles)), h("tbody", ...body)),
  );
}

// Tokens a day, as bars; the table below says the same in numbers.
function chart(rows) {
  const tokens = rows.map((row) => (row.input_tokens ?? 0) + (row.output_tokens ?? 0));
  const most = Math.max(1, ...tokens);
  const bars = tokens.map((value, index) => {
    const bar = h("span", { title: `${rows[index].key}: ${count(value)} tokens` });
    bar.style.height = `${Math.max(2, (value / most) * 100)}%`;
    return bar;
  });
  return h("div.chart", { role: "img", "aria-label": `tokens a day; the most was ${count(most)}` }, ...bars);
}

const cards = (rows) => h("ul.cards", ...rows);

const POLICIES = { allow: "runs unasked", ask: "asks first", deny: "never runs" };

async function tools(session) {
  const { tools: all, grants, servers } = await api.get("/v1/tools");
  const off = new Set(session?.tools_off ?? []);
  const rows = all.map((tool) =>
    h(
      "li",
      head(tool.name, `${tool.danger} · ${POLICIES[tool.policy]}`),
      h("p", tool.description.split(". ")[0].replace(/\.?$/, ".")),
      session && toolSwitch(session, tool.name, off),
    ),
  );
  const allowed = grants.map((grant) => {
    const item = h("li.row", h("span", `${grant.tool}: ${grant.subject}`));
    item.append(removal("revoke", `/v1/grants/${grant.id}`, item));
    return item;
  });
  const more = servers.map((server) => h("li", `${server.name}: ${server.state}, ${server.tools} tools ${server.error}`));
  return [
    cards(rows),
    h("h3", "Allowed for a conversation"),
    allowed.length ? cards(allowed) : h("p.muted", "nothing at the moment"),
    ...(more.length ? [h("h3", "MCP servers"), cards(more)] : []),
  ];
}

function toolSwitch(session, name, off) {
  const change = async ({ target }) => {
    if (target.checked) off.delete(name);
    else off.add(name);
    Object.assign(session, await api.changeSession(session.id, { tools_off: [...off] }));
  };
  return check(!off.has(name), "offered in this conversation", (event) => orWhyNot(event.target.parentElement, () => change(event)));
}

async function memory() {
  const [{ notes }, told] = await Promise.all([api.get("/v1/memory"), api.get("/v1/instructions")]);
  const list = cards(notes.map(note));
  const field = noteField("a new note");
  const said = h("div", { role: "status" });
  const add = () =>
    saying(said, async () => {
      list.append(note(await api.post("/v1/memory", { text: field.value })));
      field.value = "";
    });
  return [
    h("h3", "Instructions"),
    h("p", "What every larger model is told first. ", told.configured && `timothy.toml says: ${told.configured}`),
    ...kept("instructions", told.text, (text) => api.put("/v1/instructions", { text: text.trim() || null })),
    h("h3", "Notes"),
    h("p", "What the assistant keeps about you, in every conversation."),
    list,
    field,
    h("div.row", button("Add a note", add)),
    said,
  ];
}

const noteField = (label, more) => h("textarea", { rows: "2", "aria-label": label, dir: "auto", ...more });

// A field that is saved when it is left, and what came of that.
function kept(label, text, save) {
  const said = h("span.muted", { role: "status" });
  const change = ({ target }) =>
    saying(said, async () => {
      await save(target.value);
      return "saved";
    });
  return [noteField(label, { text, onchange: change }), said];
}

function note({ id, text }) {
  const path = `/v1/memory/${id}`;
  const item = h("li", ...kept("a note", text, (now) => api.patch(path, { text: now })));
  item.append(removal("forget", path, item));
  return item;
}

function removal(label, path, item) {
  const act = async () => {
    await api.remove(path);
    item.remove();
  };
  return button(label, () => orWhyNot(item, act), { class: "quiet" });
}

const orWhyNot = (item, act) => act().catch((error) => item.append(trouble(error)));

function looks() {
  const now = look();
  const schemes = ["system", "light", "dark"].map((scheme) =>
    check(scheme === now.scheme, scheme, () => setLook({ scheme }), { type: "radio", name: "scheme", value: scheme }),
  );
  return [
    h("fieldset", h("legend", "Colours"), ...schemes),
    h("fieldset", h("legend", "When a turn ends or waits while this tab is hidden"), ...telling(now)),
  ];
}

function telling(now) {
  const sound = ({ target }) => {
    setLook({ sound: target.checked });
    if (target.checked) beep();
  };
  const notify = async ({ target }) => {
    target.checked = target.checked && (await Notification.requestPermission()) === "granted";
    setLook({ notify: target.checked });
  };
  return [
    check(now.sound, "make a sound", sound),
    globalThis.Notification && check(now.notify && Notification.permission === "granted", "show a notification", notify),
  ];
}

async function about() {
  const [health, doctor] = await Promise.all([api.get("/health"), api.get("/v1/doctor")]);
  const checks = Object.entries(health.checks).map(([name, value]) => h("div", h("dt", name), h("dd", value)));
  const findings = doctor.findings.map((one) =>
    h("li", { class: one.level === "broken" ? "danger" : "", text: `${one.check}, ${one.row}: ${one.message}` }),
  );
  return [
    h("p", "The server is ", h("strong", health.status), "; the log is ", h("strong", doctor.healthy ? "sound" : "broken"), "."),
    h("dl.keys", ...checks),
    cards(findings),
  ];
}
