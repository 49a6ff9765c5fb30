// Bytes: hexadecimal, base64 in its one canonical spelling, SHA-256 by the browser.

export class Malformed extends Error {}

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const DIGITS = Array.from({ length: 256 }, (_, each) => each.toString(16).padStart(2, "0"));

export const utf8 = (text) => ENCODER.encode(text);

export function text(bytes, what) {
  try {
    return DECODER.decode(bytes);
  } catch {
    throw new Malformed(`${what} is not UTF-8`);
  }
}

export const hex = (bytes) => Array.from(bytes, (each) => DIGITS[each]).join("");

export const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export function fromBase64(given, what) {
  let raw;
  try {
    raw = atob(given);
  } catch {
    throw new Malformed(`${what} is not base64`);
  }
  if (btoa(raw) !== given) throw new Malformed(`${what} is not canonical base64`);
  return Uint8Array.from(raw, (each) => each.charCodeAt(0));
}

export function joined(...pieces) {
  const all = new Uint8Array(pieces.reduce((length, each) => length + each.length, 0));
  let at = 0;
  for (const each of pieces) {
    all.set(each, at);
    at += each.length;
  }
  return all;
}

export const equal = (one, other) => one.length === other.length && one.every((each, at) => each === other[at]);

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
