// Who vouches for a log: its keys through their epochs, and up to which size it is sealed ([C4] to [C10]).

import { Malformed } from "./bytes.js";
import { epochName, parseKey, signersOf } from "./note.js";

const LOOK_BACK = 16;

// What entry 0 says of the log; its keys are null where the log is unsigned.
export async function readGenesis(entry, leaf) {
  const { data } = entry;
  const texts = ["origin", "custody", "nonce"].every((name) => typeof data[name] === "string");
  if (entry.kind !== "log.genesis" || data.spec !== 1 || !texts || !data.origin || !/^[0-9a-f]{32}$/.test(data.nonce)) {
    throw new Malformed("[E6] entry 0 is no genesis of a log of this format");
  }
  const about = { origin: data.origin, leaf, identity: null, epochKey: null };
  if (data.custody === "none") {
    if ((data.identity ?? data.epoch_key ?? null) !== null) throw new Malformed("[C10] it names keys and says that there are none");
    return about;
  }
  if (typeof data.identity !== "string" || typeof data.epoch_key !== "string") throw new Malformed("[E6] the genesis names no keys");
  about.identity = await parseKey(data.identity);
  about.epochKey = await parseKey(data.epoch_key);
  if (about.identity.name !== about.origin || about.epochKey.name !== epochName(about.origin, 0)) {
    throw new Malformed("[C4] its keys are not named after its origin");
  }
  return about;
}

export const agrees = (pin, genesis) => genesis.identity?.text === pin.identity && genesis.leaf === pin.genesis;

export class Seals {
  sealedTo = 0;
  epoch = 0;
  unsealedRotations = [];
  #known = new Map();
  #rotation = null;
  #rotationSealed = false;
  #whole = true;
  #candidates = [];
  #newest = null;
  #checked = null;

  constructor(genesis, tell) {
    this.genesis = genesis;
    this.tell = tell;
    for (const key of [genesis.identity, genesis.epochKey]) if (key) this.#known.set(key.name, { ...key, since: 0 });
  }

  // Epoch key n + 1 takes over behind this entry ([C5]).
  async rotated(entry) {
    await this.#endRotation();
    const next = this.epoch + 1;
    const key = typeof entry.data.key === "string" ? await parseKey(entry.data.key) : null;
    if (!this.#known.size || entry.data.epoch !== next || key?.name !== epochName(this.genesis.origin, next)) {
      this.tell(entry.seq, `[C5] it does not introduce epoch key ${next} of this log`);
      return;
    }
    this.#rotation = { seq: entry.seq };
    this.#known.set(key.name, { ...key, since: entry.seq + 1 });
  }

  // A kept checkpoint, in the order of sizes, whose root is that of the log.
  async noted(note) {
    if (this.#rotation && note.size > this.#rotation.seq + 1) await this.#endRotation();
    if (!this.#known.size) return this.tell(null, `[C10] the log is unsigned, and a checkpoint of size ${note.size} is kept`);
    if (note.origin !== this.genesis.origin) return this.tell(null, `[C1] the checkpoint of size ${note.size} is of another log`);
    this.#newest = note;
    const claimed = this.#inForce().filter((key) => note.signatures.some((each) => each.name === key.name && each.id === key.id));
    if (!claimed.length) return this.tell(null, `[C6] no key in force signed the checkpoint of size ${note.size}`);
    // One that lacks one of the two keys seals nothing.
    if (claimed.length < 2) return;
    if (this.#rotation && note.size === this.#rotation.seq + 1) this.#rotationSealed = (await this.#seals(note)) || this.#rotationSealed;
    else this.#candidates = [...this.#candidates, note].slice(-LOOK_BACK);
  }

  async finish() {
    await this.#endRotation();
    await this.#sealByCandidates();
    if (this.#newest && this.#newest !== this.#checked) await this.#seals(this.#newest);
  }

  #inForce() {
    return [this.#known.get(this.genesis.origin), this.#known.get(epochName(this.genesis.origin, this.epoch))];
  }

  async #seals(note) {
    if (note === this.#newest) this.#checked = note;
    try {
      // A key is known from the entry on that introduces it ([C3]), whenever it is that a note is looked at.
      const signers = await signersOf(note, [...this.#known.values()].filter((key) => key.since <= note.size));
      const sealed = this.#inForce().every((key) => signers.includes(key));
      if (sealed && this.#whole) this.sealedTo = Math.max(this.sealedTo, note.size);
      return sealed;
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      this.tell(null, `the checkpoint of size ${note.size} is rejected: ${error.message}`);
      return false;
    }
  }

  // A rotation that was not sealed at its own size stays unsealed for good ([C7]).
  async #endRotation() {
    if (!this.#rotation) return;
    if (!this.#rotationSealed) {
      await this.#sealByCandidates();
      this.#whole = false;
      this.unsealedRotations.push(this.#rotation.seq);
    }
    this.epoch += 1;
    [this.#rotation, this.#rotationSealed, this.#candidates] = [null, false, []];
  }

  async #sealByCandidates() {
    while (this.#candidates.length) if (await this.#seals(this.#candidates.pop())) break;
    this.#candidates = [];
  }
}
