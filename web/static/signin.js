// The link `/#token=...` becomes a cookie; who has neither is told how to get the link.

import { Refused, signIn } from "./api.js";
import { h } from "./dom.js";

const TOKEN = /^#token=(.+)$/;

// Trades the token in the address for the cookie, and takes it out of the address at once.
export async function signInFromAddress() {
  const match = TOKEN.exec(location.hash);
  if (!match) return true;
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  return trade(decodeURIComponent(match[1]));
}

async function trade(token) {
  try {
    await signIn(token);
    return true;
  } catch (error) {
    if (error instanceof Refused) return false;
    throw error;
  }
}

// Says how to get in; `entered` runs once somebody is.
export function showSignIn(element, wrongToken, entered) {
  const field = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const trouble = h("p.danger", { role: "alert" });
  trouble.textContent = wrongToken ? "This link is not, or no longer, the right one." : "";
  const form = h(
    "form",
    h("label", { for: "token", text: "Or paste the link, or its token, here" }),
    h("div.row", field, h("button", { type: "submit", class: "primary", text: "Sign in" })),
    trouble,
  );
  form.onsubmit = async (event) => {
    event.preventDefault();
    const token = field.value.trim().replace(/^.*#token=/, "");
    try {
      if (await trade(decodeURIComponent(token))) return entered();
      trouble.textContent = "The server does not know this token.";
    } catch (error) {
      trouble.textContent = error.message;
    }
  };
  element.replaceChildren(
    h("h1", "This browser is not signed in"),
    h("p", "Open the sign-in link. ", h("code", "timothy serve"), " prints it in its terminal when it starts:"),
    h("pre", `${location.origin}/#token=…`),
    h("p", "The link stays good for every browser you own. Whoever has it can read and write here."),
    form,
  );
  element.hidden = false;
}
