// The walk along a whole ledger: every line's form and place, the chain, the tree, every checkpoint's root, who signed.

import { Malformed, hex } from "./bytes.js";
import { FIRST_PREV, HASH, PART, isCount, parseEntry } from "./entry.js";
import { Frontier, leafHash } from "./merkle.js";
import { parseNote, sameRoot } from "./note.js";
import { Seals, agrees, readGenesis } from "./seals.js";

const MOST_FINDINGS = 100;
// What tombstones and recorded anchors must say. Whether they say the truth takes entries and roots that have gone by.
const SAID = {
  "body.redacted": ({ seq, part, commitment }, at) => isCount(seq) && seq < at && isOf(PART, part) && isOf(HASH, commitment),
  "anchor.recorded": ({ by, root, size, time_us: time }, at) => isCount(size) && size <= at && isCount(time) && isOf(HASH, root) && typeof by === "string",
};
const isOf = (form, value) => typeof value === "string" && form.test(value);

// `pages` yields arrays of lines in their order; `notes` are the kept checkpoints as text, read before the lines were.
export async function verifyLedger({ pages, notes, pin, progress }) {
  const walk = new Walk(notes, pin);
  for await (const lines of pages) {
    const leaves = await Promise.all(lines.map(leafHash));
    for (let at = 0; at < lines.length; at += 1) await walk.take(lines[at], leaves[at]);
    progress(walk.tree.size);
  }
  return walk.finish();
}

class Walk {
  tree = new Frontier();
  findings = [];
  more = 0;
  #first = null;
  #next = 0;
  #prev = FIRST_PREV;
  #ts = 0;
  #genesis = null;
  #seals = null;
  #notes = [];
  #agreed = 0;
  #differs = false;
  #parts = 0;
  #said = 0;

  constructor(notes, pin) {
    this.pin = pin;
    for (const each of notes) {
      try {
        this.#notes.push(parseNote(each));
      } catch (error) {
        this.#bad(null, error);
      }
    }
    if (this.#notes.some((each, at) => at && each.size < this.#notes[at - 1].size)) this.tell(null, "[C9] the checkpoints do not stand in the order of their sizes");
    this.#notes.sort((one, other) => one.size - other.size);
    this.checkpoints = notes.length;
  }

  tell = (seq, what) => {
    if (seq !== null) this.#first = Math.min(this.#first ?? seq, seq);
    if (this.findings.length < MOST_FINDINGS) this.findings.push({ seq, what });
    else this.more += 1;
  };

  async take(line, leaf) {
    const seq = this.#next;
    this.#next += 1;
    let entry = null;
    try {
      entry = parseEntry(line);
      this.#follows(entry, seq);
    } catch (error) {
      this.#bad(seq, error);
    }
    this.#prev = hex(leaf);
    if (entry && entry.seq >= seq) await this.#means(entry, entry.seq);
    // The keys of the genesis are known at every size, that of no entries too ([C3]).
    if (!this.tree.size) await this.compare();
    await this.tree.push(leaf);
    await this.compare();
  }

  #follows(entry, seq) {
    this.#parts += Object.keys(entry.body).length;
    // The walk goes on behind what it found, so that one missing entry is not told of every one that follows.
    this.#next = Math.max(seq, entry.seq + 1);
    if (entry.seq > seq) this.tell(seq, `[E4] the entry is missing${entry.seq > seq + 1 ? `, and those up to ${entry.seq - 1} with it` : ""}`);
    else if (entry.seq < seq) this.tell(entry.seq, `[E4] it stands behind entry ${seq - 1}: repeated, inserted or moved`);
    else if (entry.prev !== this.#prev) {
      if (seq === 0) this.tell(0, "[H4] prev of entry 0 is not 64 zeros");
      else this.tell(seq - 1, `[H4] its bytes do not hash to the prev of entry ${seq}: one of the two was changed after it was written`);
    }
    if (entry.ts < this.#ts) this.tell(entry.seq, "[E4] its time is before that of the entry before it");
    this.#ts = Math.max(this.#ts, entry.ts);
    if ((entry.kind === "log.genesis") !== (entry.seq === 0)) this.tell(entry.seq, "[E6] entry 0, and only entry 0, is the genesis");
  }

  async #means(entry, seq) {
    try {
      if (seq === 0) {
        this.#genesis = await readGenesis(entry, this.#prev);
        this.#seals = new Seals(this.#genesis, this.tell);
        if (this.pin && !agrees(this.pin, this.#genesis)) this.tell(0, "[C8] identity key or genesis are not the pinned ones: this is another log");
      } else if (entry.kind === "key.rotated") {
        await this.#seals?.rotated(entry);
      } else if (Object.hasOwn(SAID, entry.kind)) {
        this.#said += 1;
        if (!SAID[entry.kind](entry.data, seq)) this.tell(seq, `${entry.kind}: it does not say of which part or size of this log it speaks`);
      }
    } catch (error) {
      this.#bad(seq, error);
    }
  }

  // The checkpoints of the size that is reached. That of no entries has a root too ([H2]).
  async compare() {
    while (this.#notes.length && this.#notes[0].size <= this.tree.size) {
      const note = this.#notes.shift();
      if (note.size === this.tree.size && sameRoot(note, await this.tree.root())) {
        if (!this.#differs) this.#agreed = note.size;
        await this.#seals?.noted(note);
      } else if (!this.#differs) {
        this.#differs = true;
        this.tell(null, `[C9] the root at size ${note.size} is not that of its checkpoint: an entry from ${this.#agreed} to ${note.size - 1} was changed`);
      }
    }
  }

  async finish() {
    await this.compare();
    for (const note of this.#notes) this.tell(null, `[C9] a checkpoint speaks of ${note.size} entries, and there are ${this.tree.size}: the end was cut off`);
    if (!this.tree.size) this.tell(null, "[E6] there is no entry, not even a genesis");
    await this.#seals?.finish();
    return {
      size: this.tree.size,
      root: hex(await this.tree.root()),
      origin: this.#genesis?.origin ?? null,
      identity: this.#genesis?.identity?.text ?? null,
      genesis: this.#genesis?.leaf ?? null,
      pinned: Boolean(this.pin && this.#genesis && agrees(this.pin, this.#genesis)),
      sealedTo: this.#seals?.sealedTo ?? 0,
      epochs: this.#genesis?.identity ? this.#seals.epoch + 1 : 0,
      unsealedRotations: this.#seals?.unsealedRotations ?? [],
      checkpoints: this.checkpoints,
      parts: this.#parts,
      said: this.#said,
      findings: this.findings,
      more: this.more,
      first: this.#first,
    };
  }

  #bad(seq, error) {
    if (!(error instanceof Malformed)) throw error;
    this.tell(seq, error.message);
  }
}
