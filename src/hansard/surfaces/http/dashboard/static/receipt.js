// A receipt ([P1] to [P3]): one entry, its place in a signed log, and the parts that it discloses. It needs no ledger.

import { Malformed, equal, fromBase64, hex, joined, sha256, text, unhex, utf8 } from "./bytes.js";
import { HASH, decoded, hasOnly, isCount, isObject, parseEntry } from "./entry.js";
import { checkInclusion, leafHash } from "./merkle.js";
import { cosignedAt, decimal, epochName, parseKey, parseNote, signersOf } from "./note.js";
import { agrees, readGenesis } from "./seals.js";

const HEADER = "c2sp.org/tlog-proof@v1";
const PREFIX = utf8("hansard-body/v1\n");
const MAX_PATH = 64;
const PAGE = "<!doctype html>";
const CARRIED = /<script type="text\/plain" id="receipt">([A-Za-z0-9+/]+={0,2})<\/script>/g;
const plainly = (bytes) => new TextDecoder("latin1").decode(bytes);

export async function verifyReceipt(bytes, pin, witnesses = []) {
  const findings = [];
  const trying = async (check) => {
    try {
      return await check();
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      findings.push({ seq: null, what: error.message });
      return null;
    }
  };
  const page = plainly(bytes.subarray(0, PAGE.length)) === PAGE;
  const read = await trying(() => readReceipt(page ? carried(bytes) : bytes));
  if (!read) return { findings, pinned: false };
  const { entry, genesis, epoch, note } = read;
  const about = await trying(async () => readGenesis(genesis.entry, hex(await leafHash(genesis.line))));
  const signers = about ? await trying(() => checkSigners(about, epoch, note, pin, findings)) : null;
  for (const [name, placed] of Object.entries({ entry, genesis, epoch })) {
    if (placed) await trying(() => checkPlace(name, placed, note));
  }
  const opened = {};
  for (const [part, opening] of Object.entries(read.open)) {
    await trying(async () => {
      if (!Object.hasOwn(entry.entry.body, part)) throw new Malformed(`[P2] it opens ${part}, which the entry does not have`);
      await checkOpening(part, opening, entry.entry.body[part]);
      opened[part] = opening;
    });
  }
  return {
    findings,
    page,
    entry: entry.entry,
    opened,
    closed: Object.keys(entry.entry.body).filter((part) => !Object.hasOwn(read.open, part)),
    origin: note.origin,
    size: note.size,
    signers: signers ?? [],
    epoch: epoch?.entry.data.epoch ?? 0,
    witnesses: await Promise.all(witnesses.map((key) => wordOf(key, note))),
    pinned: Boolean(pin && about && agrees(pin, about)),
  };
}

// The receipt in a page that shows one ([P1]).
function carried(bytes) {
  const found = [...plainly(bytes).matchAll(CARRIED)];
  if (found.length !== 1) throw new Malformed(`[P1] the page carries ${found.length ? "several receipts" : "no receipt"}`);
  return fromBase64(found[0][1], "the receipt of the page");
}

function readReceipt(bytes) {
  const given = text(bytes, "the receipt");
  const at = given.indexOf("\n\n");
  const lines = given.slice(0, at).split("\n");
  if (at < 0 || lines.shift() !== HEADER) throw new Malformed("[P1] this is no receipt");
  if (!lines[0]?.startsWith("extra ")) throw new Malformed("[P2] it does not say which entry it is about");
  const extra = decoded(fromBase64(lines.shift().slice(6), "the extra line"), "the extra line");
  const index = lines.shift() ?? "";
  if (!index.startsWith("index ")) throw new Malformed("[P1] it has no index line");
  const named = ["genesis,line,open,v", "epoch,genesis,line,open,v"].some((names) => hasOnly(extra, names));
  if (!named || extra.v !== 1 || !isObject(extra.open) || !hasOnly(extra.genesis, "line,path")) throw new Malformed("[P2] its extra line is not of its form");
  return {
    note: parseNote(given.slice(at + 2)),
    entry: placed({ index: decimal(index.slice(6), "the index"), line: extra.line, path: lines }),
    genesis: placed({ index: 0, ...extra.genesis }),
    epoch: Object.hasOwn(extra, "epoch") ? placed(extra.epoch) : null,
    open: Object.fromEntries(Object.entries(extra.open).map(([part, each]) => [part, opening(each)])),
  };
}

function placed(given) {
  const { index, line, path } = hasOnly(given, "index,line,path") ? given : {};
  const texts = [line, ...(Array.isArray(path) ? path : [null])];
  if (!texts.every((each) => typeof each === "string") || path.length > MAX_PATH || !isCount(index)) {
    throw new Malformed("[P2] an entry with its path is not of its form");
  }
  const bytes = utf8(line);
  const hashes = path.map((each) => fromBase64(each, "a hash of a path"));
  if (hashes.some((each) => each.length !== 32)) throw new Malformed("[P2] a hash of a path has not 32 bytes");
  return { index, line: bytes, path: hashes, entry: parseEntry(bytes) };
}

function opening(given) {
  const { salt, media, body } = hasOnly(given, "body,media,salt") ? given : {};
  if (![salt, media, body].every((each) => typeof each === "string") || !HASH.test(salt)) throw new Malformed("[P2] an opening is not of its form");
  if (!/^[\x20-\x7e]{1,127}$/.test(media)) throw new Malformed("[B1] a media type is not of its form");
  return { salt: unhex(salt), media, body: fromBase64(body, "a body") };
}

// What a witness says of the checkpoint. A cosignature that does not hold is none: anybody can put one behind a receipt.
async function wordOf(key, note) {
  try {
    return { name: key.name, time: await cosignedAt(note, key), why: "" };
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    return { name: key.name, time: null, why: error.message };
  }
}

async function checkSigners(about, epoch, note, pin, findings) {
  if (pin && !agrees(pin, about)) findings.push({ seq: null, what: "[C8] identity key or genesis are not the pinned ones: this is of another log" });
  if (about.origin !== note.origin) throw new Malformed("[C1] its checkpoint is of another log than its genesis");
  if (!about.identity) throw new Malformed("[C10] the log is unsigned");
  const keys = [about.identity, epoch ? await rotatedKey(about, epoch.entry) : about.epochKey];
  if (epoch && epoch.entry.seq + 1 >= note.size) throw new Malformed(`[C5] the epoch key of its rotation is in force past size ${epoch.entry.seq + 1} only`);
  // The first epoch key is known from the genesis that it carries, retired or not ([C3]).
  const signers = await signersOf(note, new Set([...keys, about.epochKey]));
  for (const key of keys) if (!signers.includes(key)) throw new Malformed(`[C6] its checkpoint is not signed by ${key.name}`);
  return keys.map((key) => key.name);
}

async function rotatedKey(about, { kind, data }) {
  const key = kind === "key.rotated" && typeof data.key === "string" ? await parseKey(data.key) : null;
  if (!key || !isCount(data.epoch) || data.epoch === 0 || key.name !== epochName(about.origin, data.epoch)) throw new Malformed("[C4] its epoch key is not named after its origin and epoch");
  return key;
}

async function checkPlace(name, { line, index, path, entry }, note) {
  if (entry.seq !== index) throw new Malformed(`it says index ${index}, and its ${name} says ${entry.seq}`);
  try {
    await checkInclusion(await leafHash(line), index, note.size, path, note.root);
  } catch (error) {
    throw error instanceof Malformed ? new Malformed(`the ${name} is not in the log that was signed: ${error.message}`) : error;
  }
}

async function checkOpening(part, { salt, media, body }, committed) {
  const inner = await sha256(joined(utf8(`${media}\n`), body));
  if (!equal(await sha256(joined(PREFIX, salt, inner)), unhex(committed))) {
    throw new Malformed(`[B2] what it discloses as ${part} does not give the commitment: it was changed`);
  }
}
