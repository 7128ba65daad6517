// The settings: one window, one section per subject; a section whose route the server lacks is not shown.

import * as api from "./api.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { look, setLook } from "./look.js";
import { beep } from "./notify.js";
import { count, money } from "./words.js";

const SECTIONS = [
  ["Models", "/v1/providers", providers],
  ["Usage", "/v1/usage", usage],
  ["Tools", "/v1/tools", tools],
  ["Memory", "/v1/memory", memory],
  ["Look", null, looks],
  ["About", null, about],
];

export async function showSettings(first = "Models") {
  const body = h("div", { class: "settings-body", tabindex: "0", role: "tabpanel" });
  const tabs = h("div", { class: "tabs", role: "tablist" });
  const dialog = openDialog("Settings", h("div", { class: "settings" }, tabs, body));
  const show = async (name, build) => {
    for (const tab of tabs.children) {
      const chosen = tab.textContent === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    body.setAttribute("aria-label", name);
    body.replaceChildren(h("p", { class: "muted", text: "asking the server" }));
    const content = await Promise.resolve(build()).catch((error) => [h("p", { class: "danger", text: error.message })]);
    body.replaceChildren(...content);
  };
  tabs.addEventListener("keydown", (event) => walk(tabs, event));
  for (const [name, route, build] of SECTIONS) {
    if (route && !(await api.offers(route))) continue;
    const tab = h("button", { type: "button", role: "tab", text: name });
    tab.addEventListener("click", () => show(name, build));
    tabs.append(tab);
    if (name === first) show(name, build);
  }
  return dialog;
}

function walk(tabs, event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...tabs.children];
  const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
  next.focus();
  next.click();
}

const EXAMPLE = `[[providers]]
name = "home"
driver = "openai"        # any OpenAI-compatible server; or anthropic, ollama
base_url = "http://127.0.0.1:8080/v1"
model = "qwen3-8b"
api_key_env = "HOME_KEY" # the name of an environment variable, if it asks for a key`;

async function providers() {
  const { providers: chain } = await api.get("/v1/providers");
  const canTest = await api.offers("/v1/providers/test");
  const rows = chain.map((entry) =>
    h(
      "li",
      {},
      h("div", { class: "row" }, h("strong", { text: entry.name }), h("span", { class: "muted", text: `${entry.driver} · ${entry.model}` })),
      h("p", { class: entry.healthy ? "" : "warning", text: health(entry) }),
      canTest && testButton(entry),
    ),
  );
  return [
    h("p", { text: "Asked from the first to the last: the next one takes over when one fails." }),
    h("ol", { class: "cards" }, ...rows),
    h("h3", { text: "To add a better model" }),
    h("p", {}, "Write an entry into ", h("code", { text: "timothy.toml" }), " in the home folder, above the others, and restart the server:"),
    h("pre", { tabindex: "0", "aria-label": "an example", text: EXAMPLE }),
  ];
}

function health(entry) {
  if (entry.cooling_until) {
    const until = new Date(entry.cooling_until).toLocaleTimeString();
    return `resting until ${until}${entry.last_error ? `: ${entry.last_error}` : ""}`;
  }
  if (!entry.healthy) return `in trouble${entry.last_error ? `: ${entry.last_error}` : ""}`;
  return entry.last_error ? `ready; its last trouble was: ${entry.last_error}` : "ready";
}

function testButton(entry) {
  const said = h("span", { role: "status" });
  const button = h("button", { type: "button", text: "Test" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    said.textContent = "asking it for a word";
    try {
      const result = await api.post("/v1/providers/test", { name: entry.name });
      said.textContent = result.ok ? `it answered: ${result.text}` : `${result.code}: ${result.message}`;
    } catch (error) {
      said.textContent = error.message;
    }
    button.disabled = false;
  });
  return h("div", { class: "row" }, button, said);
}

async function usage() {
  const [days, models] = await Promise.all([api.get("/v1/usage?group=day"), api.get("/v1/usage?group=model")]);
  const total = days.total;
  return [
    h("p", {
      text: `${count(total.attempts)} requests to models, ${count(total.input_tokens)} tokens in, ${count(total.output_tokens)} out, cost ${cost(total)}.`,
    }),
    chart(days.rows.slice(-30)),
    table("By model", models.rows),
    table("By day", days.rows.slice(-30).reverse()),
  ];
}

const cost = (row) =>
  row.unpriced_attempts ? `${money(row.cost)} and ${row.unpriced_attempts} without a known price` : money(row.cost);

function table(caption, rows) {
  const head = ["", "requests", "failed", "tokens in", "tokens out", "cost"].map((text) => h("th", { scope: "col", text }));
  const body = rows.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: row.key ?? "unknown" }),
      ...[count(row.attempts), count(row.error), count(row.input_tokens), count(row.output_tokens), money(row.cost)].map((text) =>
        h("td", { text }),
      ),
    ),
  );
  return h(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { text: caption }), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)),
  );
}

// Tokens a day, as bars; the table below says the same in numbers.
function chart(rows) {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  const tokens = rows.map((row) => (row.input_tokens ?? 0) + (row.output_tokens ?? 0));
  const most = Math.max(1, ...tokens);
  svg.setAttribute("viewBox", `0 0 ${Math.max(rows.length, 10) * 10} 60`);
  svg.setAttribute("class", "chart");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `tokens a day; the most was ${count(most)}`);
  tokens.forEach((value, index) => {
    const bar = document.createElementNS(namespace, "rect");
    const height = Math.max(1, (value / most) * 58);
    for (const [name, number] of Object.entries({ x: index * 10 + 1, y: 60 - height, width: 8, height, rx: 1.5 })) {
      bar.setAttribute(name, String(number));
    }
    const label = document.createElementNS(namespace, "title");
    label.textContent = `${rows[index].key}: ${count(value)} tokens`;
    bar.append(label);
    svg.append(bar);
  });
  return svg;
}

async function tools() {
  const { tools: all = [], grants = [] } = await api.get("/v1/tools");
  const rows = all.map((tool) =>
    h("li", {}, h("div", { class: "row" }, h("strong", { text: tool.name }), h("span", { class: "muted", text: `${tool.danger} · ${tool.policy === "allow" ? "runs unasked" : tool.policy === "deny" ? "never runs" : "asks first"}` })), h("p", { text: tool.description.split("\n")[0] })),
  );
  const allowed = grants.map((grant) => {
    const item = h("li", {}, h("span", { text: `${grant.tool} ${grant.subject ?? ""}` }));
    item.append(removal("revoke", `/v1/grants/${grant.id}`, item));
    return item;
  });
  return [
    h("ul", { class: "cards" }, ...rows),
    h("h3", { text: "Allowed for a conversation" }),
    allowed.length ? h("ul", { class: "cards" }, ...allowed) : h("p", { class: "muted", text: "nothing at the moment" }),
  ];
}

async function memory() {
  const { notes = [] } = await api.get("/v1/memory");
  const rows = notes.map((note) => {
    const item = h("li", {}, h("p", { dir: "auto", text: note.text }));
    item.append(removal("forget", `/v1/memory/${note.id}`, item));
    return item;
  });
  return rows.length ? [h("ul", { class: "cards" }, ...rows)] : [h("p", { class: "muted", text: "Nothing is remembered." })];
}

function removal(label, path, item) {
  const button = h("button", { type: "button", class: "quiet", text: label });
  button.addEventListener("click", async () => {
    await api.remove(path);
    item.remove();
  });
  return button;
}

function looks() {
  const now = look();
  const schemes = ["system", "light", "dark"].map((scheme) => {
    const radio = h("input", { type: "radio", name: "scheme", value: scheme, checked: scheme === now.scheme });
    radio.addEventListener("change", () => setLook({ scheme }));
    return h("label", { class: "check" }, radio, ` ${scheme}`);
  });
  return [
    h("fieldset", {}, h("legend", { text: "Colours" }), ...schemes),
    h("fieldset", {}, h("legend", { text: "When a turn ends or waits while this tab is hidden" }), ...telling(now)),
  ];
}

function telling(now) {
  const sound = h("input", { type: "checkbox", checked: now.sound });
  sound.addEventListener("change", () => {
    setLook({ sound: sound.checked });
    if (sound.checked) beep();
  });
  const rows = [h("label", { class: "check" }, sound, " make a sound")];
  if (!globalThis.Notification) return rows;
  const notify = h("input", { type: "checkbox", checked: now.notify && Notification.permission === "granted" });
  notify.addEventListener("change", async () => {
    const granted = notify.checked && (await Notification.requestPermission()) === "granted";
    notify.checked = granted;
    setLook({ notify: granted });
  });
  return [...rows, h("label", { class: "check" }, notify, " show a notification")];
}

async function about() {
  const health = await api.get("/health");
  const checks = Object.entries(health.checks ?? {}).map(([name, value]) =>
    h("div", {}, h("dt", { text: name }), h("dd", { text: typeof value === "string" ? value : JSON.stringify(value) })),
  );
  return [
    h("p", { text: "Timothy is a self-hosted assistant that never loses a turn." }),
    h("p", {}, "The server says: ", h("strong", { text: health.status }), "."),
    h("dl", { class: "keys" }, ...checks),
    h("p", {}, "For a thorough check of the log, run ", h("code", { text: "timothy doctor" }), "."),
  ];
}
