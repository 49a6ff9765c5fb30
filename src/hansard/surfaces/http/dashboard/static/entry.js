// One entry, read strictly: rules [E1] to [E4] of docs/ledger-format.md. What needs its neighbours is checked by the walk.

import { Malformed, text } from "./bytes.js";

export const FIRST_PREV = "0".repeat(64);
export const HASH = /^[0-9a-f]{64}$/;
const MAX_LINE = 65535;
const MAX_DEPTH = 32;
const KEYS = "actor,body,causes,data,kind,prev,run,seq,ts,v";
const FORMS = {
  actor: /^[A-Za-z0-9._:/+-]{1,128}$/,
  kind: /^(?=.{3,64}$)[a-z][a-z_]*(\.[a-z][a-z_]*)+$/,
  run: /^[A-Za-z0-9_-]{0,64}$/,
  prev: HASH,
};
export const PART = /^[a-z][a-z0-9_]{0,31}$/;

export const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
// Whether an object of decoded() has exactly these members, given in their order.
export const hasOnly = (value, names) => isObject(value) && Object.keys(value).join() === names;

// The canonical text of a value of [E3]; whatever lies outside of the model is refused.
function written(value, depth = 0) {
  if (depth > MAX_DEPTH) throw new Malformed(`[E3] nested deeper than ${MAX_DEPTH} levels`);
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) throw new Malformed("[E3] a number that is no integer within 2^53");
    return String(value);
  }
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new Malformed("[E3] a lone surrogate");
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map((each) => written(each, depth + 1)).join(",")}]`;
  const members = Object.keys(value).sort().map((key) => {
    if (!/^[\x00-\x7f]*$/.test(key)) throw new Malformed("[E3] a key that is not ASCII");
    return `${JSON.stringify(key)}:${written(value[key], depth + 1)}`;
  });
  return `{${members.join(",")}}`;
}

// Writing it again also finds repeated keys, other orders, spaces and other spellings of numbers.
export function decoded(bytes, what) {
  const given = text(bytes, what);
  let value;
  try {
    value = JSON.parse(given);
  } catch {
    throw new Malformed(`[E1] ${what} is not JSON`);
  }
  if (written(value) !== given) throw new Malformed(`[E2] ${what} is not in canonical form`);
  return value;
}

export function parseEntry(line) {
  if (line.length > MAX_LINE) throw new Malformed(`[E1] ${line.length} bytes, more than ${MAX_LINE}`);
  const entry = decoded(line, "the line");
  if (!hasOnly(entry, KEYS)) throw new Malformed("[E4] members missing or unknown");
  if (entry.v !== 1) throw new Malformed("[E4] a format version that this reader does not know");
  if (!isCount(entry.seq) || !isCount(entry.ts)) throw new Malformed("[E4] seq or ts is not an integer >= 0");
  for (const [name, form] of Object.entries(FORMS)) {
    if (typeof entry[name] !== "string" || !form.test(entry[name])) throw new Malformed(`[E4] ${name} is not of its form`);
  }
  if (!isObject(entry.data)) throw new Malformed("[E4] data is not an object");
  checkCauses(entry);
  checkBody(entry.body);
  return entry;
}

function checkCauses({ causes, seq }) {
  if (!Array.isArray(causes) || causes.length > 1000) throw new Malformed("[E4] causes is not an array of at most 1000");
  let last = -1;
  for (const cause of causes) {
    if (!isCount(cause) || cause <= last || cause >= seq) throw new Malformed("[E4] causes do not rise towards the entry");
    last = cause;
  }
}

function checkBody(body) {
  if (!isObject(body) || Object.keys(body).length > 255) throw new Malformed("[E4] body is not an object of at most 255 parts");
  for (const [part, committed] of Object.entries(body)) {
    if (!PART.test(part) || typeof committed !== "string" || !HASH.test(committed)) throw new Malformed("[E4] a part is not of its form");
  }
}
