// Telling somebody who looks elsewhere that a turn ended, or waits: the tab's title, a sound, a notification.

import { look } from "./look.js";

let mark = "";
let title = "";

export function setTitle(text) {
  title = text;
  showTitle();
}

function showTitle() {
  const whole = `${mark ? `${mark} · ` : ""}${title ? `${title} · ` : ""}Timothy`;
  if (document.title !== whole) document.title = whole;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  mark = "";
  showTitle();
});

// `words` is for the title, `body` for the notification. Says nothing to somebody who is looking.
export function tell(words, body, open) {
  if (!document.hidden) return;
  mark = words;
  showTitle();
  const { sound, notify } = look();
  if (sound) beep();
  if (notify && globalThis.Notification?.permission === "granted") show(words, body, open);
}

function show(words, body, open) {
  let notification;
  try {
    notification = new Notification(`Timothy: ${words}`, { body, tag: "timothy" });
  } catch (error) {
    if (error instanceof TypeError) return; // a phone's browser lets service workers only; the title still says it
    throw error;
  }
  notification.onclick = () => {
    window.focus();
    notification.close();
    open();
  };
}

export function beep() {
  const context = new AudioContext();
  const tone = context.createOscillator();
  const gain = context.createGain();
  gain.gain.value = 0.05;
  tone.connect(gain).connect(context.destination);
  tone.start();
  tone.stop(context.currentTime + 0.2);
  tone.addEventListener("ended", () => context.close());
}
