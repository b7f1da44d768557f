// The words of a long text in ASCII, each once. Repetitions are recognised in the text itself: cutting every word of a
// megabyte out of it makes 10 MB of garbage and takes 5 times as long. The hash is secret: words that share a slot for every
// secret have hundreds of letters, so that few fit a text. Words are letters and digits of a text in lower case.
// Contract: decisions#search, neighbours#byte-budgets.
import { randomInt } from 'node:crypto';

const FACTOR = randomInt(0x4000_0000) * 2 + 1;
const FIRST_SLOTS = 1_024;

export class SeenWords {
  readonly #words: string[] = [];
  readonly #hashes: number[] = [];
  /** Open addressing: positions in `#words`, from 1; 0 is a free slot. At most half of the slots are used. */
  #slots = new Int32Array(FIRST_SLOTS);

  /** The words of a piece of the text that have not been in an earlier one. */
  newIn(piece: string): string[] {
    const found: string[] = [];
    let start = -1;
    let hash = 0;
    for (let i = 0; i <= piece.length; i++) {
      const code = piece.charCodeAt(i);
      if ((code >= 0x61 && code <= 0x7a) || (code >= 0x30 && code <= 0x39)) {
        if (start < 0) {
          start = i;
          hash = 0;
        }
        hash = (Math.imul(hash, FACTOR) + code) | 0;
      } else if (start >= 0) {
        const slot = this.#slotOf(piece, start, i, hash);
        if (this.#slots[slot] === 0) found.push(this.#add(piece.slice(start, i), hash, slot));
        start = -1;
      }
    }
    return found;
  }

  /** Where the word is, or would be. */
  #slotOf(piece: string, start: number, end: number, hash: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = mixed(hash) & mask; ; slot = (slot + 1) & mask) {
      const at = this.#slots[slot] as number;
      if (at === 0) return slot;
      if (this.#hashes[at - 1] === hash && isAt(this.#words[at - 1] as string, piece, start, end)) return slot;
    }
  }

  #add(word: string, hash: number, slot: number): string {
    this.#words.push(word);
    this.#hashes.push(hash);
    this.#slots[slot] = this.#words.length;
    if (this.#words.length * 2 > this.#slots.length) this.#grow();
    return word;
  }

  #grow(): void {
    this.#slots = new Int32Array(this.#slots.length * 4);
    const mask = this.#slots.length - 1;
    for (const [at, hash] of this.#hashes.entries()) {
      let slot = mixed(hash) & mask;
      while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
      this.#slots[slot] = at + 1;
    }
  }
}

function mixed(hash: number): number {
  return Math.imul(hash ^ (hash >>> 15), 0x9e37_79b1) >>> 0;
}

/** Whether the word is what stands in the piece there. */
function isAt(word: string, piece: string, start: number, end: number): boolean {
  if (word.length !== end - start) return false;
  for (let i = 0; i < word.length; i++) if (word.charCodeAt(i) !== piece.charCodeAt(start + i)) return false;
  return true;
}
