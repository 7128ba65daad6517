// How the page looks and tells: light or dark, sound, notifications. Kept in this browser.

const place = "timothy:look";
const DEFAULTS = { scheme: "system", sound: false, notify: false };

export function look() {
  return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(place) ?? "{}") };
}

export function setLook(change) {
  localStorage.setItem(place, JSON.stringify({ ...look(), ...change }));
  applyLook();
}

export function applyLook() {
  const { scheme } = look();
  if (scheme === "system") delete document.documentElement.dataset.scheme;
  else document.documentElement.dataset.scheme = scheme;
}
