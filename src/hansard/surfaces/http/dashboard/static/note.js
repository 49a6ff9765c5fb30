// Signed notes, checkpoints and verifier keys ([C1] to [C4], [C8]); Ed25519 by the browser, with the strict rules of [C3] on top.

import { Malformed, equal, fromBase64, hex, joined, sha256, utf8 } from "./bytes.js";
import { HASH } from "./entry.js";

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
const ORDER_8_Y = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n;
const LOW_ORDER_Y = [0n, 1n, P - 1n, ORDER_8_Y, P - ORDER_8_Y];
const ED25519 = 1;
const COSIGNATURE = 4;
const MAX_TIME_S = 2n ** 63n - 1n;
const MAX_SIGNATURES = 100;
const MAX_NOTE = 2 ** 20;

export const epochName = (origin, epoch) => `${origin}/epoch/${epoch}`;

export async function parseKey(given, algorithm = ED25519) {
  const [name, id, ...rest] = given.split("+");
  const raw = fromBase64(rest.join("+"), "the key");
  checkName(name);
  if (raw.length !== 33 || raw[0] !== algorithm) throw new Malformed(`[C2] ${name} is not ${algorithm === ED25519 ? "an Ed25519 key" : "the key of a witness"}`);
  const found = hex((await sha256(joined(utf8(name), Uint8Array.of(10), raw))).slice(0, 4));
  if (id !== found) throw new Malformed(`[C2] the key id of ${name} does not belong to its key`);
  return { name, id, public: raw.slice(1), text: given };
}

export async function parsePin(given) {
  const at = given.trim().lastIndexOf("@");
  const [identity, genesis] = [given.trim().slice(0, at), given.trim().slice(at + 1)];
  if (at < 0 || !HASH.test(genesis)) throw new Malformed("a pin is <identity verifier key>@<64 hex digits>");
  await parseKey(identity);
  return { identity, genesis };
}

// The keys of witnesses, with spaces between them.
export const parseWitnesses = (given) => Promise.all([...new Set(given.split(/\s+/).filter(Boolean))].map((each) => parseKey(each, COSIGNATURE)));

// A signed checkpoint taken apart, nothing in it believed.
export function parseNote(given) {
  const at = given.lastIndexOf("\n\n");
  const lines = given.slice(at + 2).split("\n");
  if (at < 0 || lines.pop() !== "" || !lines.length || lines.length > MAX_SIGNATURES) throw new Malformed("this is no signed note");
  if (/[\x00-\x09\x0b-\x1f]/.test(given) || !given.isWellFormed()) throw new Malformed("the note holds control characters");
  if (utf8(given).length > MAX_NOTE) throw new Malformed(`a note of more than ${MAX_NOTE} bytes`);
  const body = given.slice(0, at + 1);
  return { body, ...parseCheckpoint(body), signatures: lines.map(parseSignature) };
}

function parseCheckpoint(body) {
  const lines = body.split("\n");
  if (lines.pop() !== "" || lines.length < 3 || lines.includes("")) throw new Malformed("[C1] this is no checkpoint");
  const root = fromBase64(lines[2], "the root");
  if (root.length !== 32) throw new Malformed("[C1] the root has not 32 bytes");
  return { origin: lines[0], size: decimal(lines[1], "the size"), root };
}

export function decimal(given, what) {
  const value = /^(0|[1-9][0-9]{0,15})$/.test(given) ? Number(given) : -1;
  if (!Number.isSafeInteger(value) || value < 0) throw new Malformed(`${what} is not a number`);
  return value;
}

function parseSignature(line) {
  const found = /^— ([^ ]*) (.*)$/su.exec(line);
  if (!found) throw new Malformed("this is no signature line");
  checkName(found[1]);
  const raw = fromBase64(found[2], "a signature");
  if (raw.length < 5) throw new Malformed("a signature is too short");
  return { name: found[1], id: hex(raw.slice(0, 4)), bytes: raw.slice(4) };
}

function checkName(name) {
  if (!name || /[+\p{White_Space}\x00-\x1f]/u.test(name)) throw new Malformed("a key has a name without spaces and plus signs");
}

// Which of these keys signed. A known key with a bad signature rejects the whole note ([C3]).
export async function signersOf(note, keys) {
  const found = [];
  for (const key of keys) {
    const own = note.signatures.filter((each) => each.name === key.name && each.id === key.id);
    for (const each of own) {
      if (!(await isSigned(key.public, utf8(note.body), each.bytes))) throw new Malformed(`[C3] the signature of ${key.name} does not hold`);
    }
    if (own.length) found.push(key);
  }
  return found;
}

// The time at which a witness says that it saw this, in seconds; null where it says nothing ([W5]).
export async function cosignedAt(note, key) {
  const times = [];
  for (const { bytes } of note.signatures.filter((each) => each.name === key.name && each.id === key.id)) {
    const time = bytes.length === 72 ? new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0) : MAX_TIME_S + 1n;
    const message = utf8(`cosignature/v1\ntime ${time}\n${note.body}`);
    if (time > MAX_TIME_S || !(await isSigned(key.public, message, bytes.slice(8)))) throw new Malformed(`[W5] the cosignature of ${key.name} does not hold`);
    times.push(time);
  }
  return times.length ? times[0] : null;
}

export async function isSigned(publicKey, message, signature) {
  if (signature.length !== 64 || isWeak(publicKey) || isWeak(signature.slice(0, 32)) || number(signature.slice(32)) >= L) return false;
  const key = await crypto.subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]).catch((error) => {
    if (error.name === "NotSupportedError") throw error;
    return null;
  });
  return key !== null && crypto.subtle.verify("Ed25519", key, signature, message);
}

// Neither a point of low order nor a spelling that is not canonical; browsers differ in whether they refuse those.
function isWeak(encoded) {
  const y = number(encoded) & (2n ** 255n - 1n);
  return y >= P || LOW_ORDER_Y.includes(y);
}

const number = (bytes) => BigInt(`0x${hex(Uint8Array.from(bytes).reverse())}`);

export const sameRoot = (note, root) => equal(note.root, root);
