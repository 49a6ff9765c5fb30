// The tree of RFC 6962: hashes, the frontier that grows with the log, inclusion proofs ([H1] to [H5]).

import { Malformed, equal, joined, sha256 } from "./bytes.js";

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);
const MOST_WAITING = 1024;

export const leafHash = (line) => sha256(joined(LEAF, line));
export const nodeHash = (left, right) => sha256(joined(NODE, left, right));

// The hashes of the complete subtrees of the first `size` leaves, by level. Leaves wait until a root is asked for, or many
// are there: the browser hashes a row of pairs much faster than one pair after the other.
export class Frontier {
  size = 0;
  #nodes = [];
  #waiting = [];

  async push(leaf) {
    this.#waiting.push(leaf);
    this.size += 1;
    if (this.#waiting.length >= MOST_WAITING) await this.#settle();
  }

  async root() {
    await this.#settle();
    const [last, ...larger] = this.#nodes.filter(Boolean);
    let node = last ?? (await sha256(new Uint8Array()));
    for (const each of larger) node = await nodeHash(each, node);
    return node;
  }

  async #settle() {
    let rising = this.#waiting;
    this.#waiting = [];
    for (let level = 0; rising.length; level += 1) {
      const row = this.#nodes[level] ? [this.#nodes[level], ...rising] : rising;
      this.#nodes[level] = row.length % 2 ? row.at(-1) : null;
      rising = await Promise.all(Array.from({ length: Math.floor(row.length / 2) }, (_, at) => nodeHash(row[2 * at], row[2 * at + 1])));
    }
  }
}

// RFC 9162, 2.1.3.2. Throws unless the path leads from the leaf to the root.
export async function checkInclusion(leaf, index, size, path, root) {
  if (!(index >= 0 && index < size)) throw new Malformed(`there is no leaf ${index} in a tree of ${size}`);
  let at = BigInt(index);
  let last = BigInt(size) - 1n;
  let found = leaf;
  for (const each of path) {
    if (last === 0n) throw new Malformed("the path is too long");
    if (at & 1n || at === last) {
      found = await nodeHash(each, found);
      while (!(at & 1n) && at !== 0n) [at, last] = [at >> 1n, last >> 1n];
    } else {
      found = await nodeHash(found, each);
    }
    [at, last] = [at >> 1n, last >> 1n];
  }
  if (last !== 0n) throw new Malformed("the path is too short");
  if (!equal(found, root)) throw new Malformed("the path leads to another root");
}
