// Files that go with a message: text as text, pictures as their bytes in base64.

import { button, h } from "./dom.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const LARGEST_FILE = 4_000_000; // bytes; a bigger picture is made smaller
const SMALLER_PX = 2048;

export const MOST = 10;

// The file as the API takes it, {name, media_type, text or data}, or words why it is not taken.
export async function readFile(file) {
  if (IMAGES.has(file.type)) return picture(file);
  if (file.size > LARGEST_FILE) return `is larger than ${LARGEST_FILE / 1e6} MB`;
  const text = asText(await file.arrayBuffer());
  return text === null ? "is neither text nor a picture" : { name: file.name, media_type: "text/plain", text };
}

function asText(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

async function picture(file) {
  const blob = file.size > LARGEST_FILE ? await smaller(file) : file;
  if (!blob) return "is a picture that cannot be read";
  return { name: file.name || "picture", media_type: blob.type, data: await base64(blob) };
}

async function smaller(file) {
  const bitmap = await createImageBitmap(file).catch(() => null); // its bytes are none
  if (!bitmap) return null;
  const scale = Math.min(1, SMALLER_PX / Math.max(bitmap.width, bitmap.height));
  const canvas = h("canvas", { width: Math.round(bitmap.width * scale), height: Math.round(bitmap.height * scale) });
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85));
}

function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result.slice(reader.result.indexOf(",") + 1)));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(blob);
  });
}

const address = ({ sha256, media_type }) => `/v1/attachments/${sha256}?${new URLSearchParams({ media_type })}`;

// What the log kept of an attachment, as it is sent again.
export async function readAgain(kept) {
  const response = await fetch(address(kept));
  return response.ok && readFile(new File([await response.blob()], kept.name, { type: kept.media_type }));
}

// A kept attachment under its message: a picture as a picture, a text as a link.
export function shown(kept) {
  const content = IMAGES.has(kept.media_type) ? h("img", { src: address(kept), alt: kept.name, loading: "lazy" }) : kept.name;
  return h("a.chip", { href: address(kept), target: "_blank", rel: "noopener" }, content);
}

// A file that will go with the next message; `remove` takes it away.
export function chip({ name, media_type, data }, remove) {
  const preview = data ? h("img", { src: `data:${media_type};base64,${data}`, alt: "" }) : null;
  return h("span.chip", preview, name, button("×", remove, { class: "quiet", "aria-label": `remove ${name}` }));
}
