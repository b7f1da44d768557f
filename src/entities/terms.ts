// The terms of a record, each once, with the numbers of the fields that contain it. The terms are stored one after the other as
// UTF-16 units, and looked up without making strings: cutting every word out of a megabyte of text makes 10 MB of garbage and
// takes 5 times as long. The hash has a secret seed, so that nobody can write a text whose words share a slot.
// Contract: decisions#search, neighbours#byte-budgets.
import { Buffer } from 'node:buffer';
import { randomInt } from 'node:crypto';
import { textOf } from '../expression/case-folding.ts';

const FACTOR = randomInt(0x4000_0000) * 2 + 1;
const FIRST_SLOTS = 64;
/** The initial size of the buffer; longer than any term. */
const FIRST_UNITS = 256;
/** Up to this many units, passing them as arguments is faster than a decoder. */
const SHORT = 512;
const LAST_ASCII = 0x7f;
const [QUOTE, COLON, SPACE] = [0x27, 0x3a, 0x20];
const utf16 = new TextDecoder('utf-16le');

export class Terms {
  /** The terms one after the other; the start and the hash of each follow. */
  #units = new Uint16Array(FIRST_UNITS);
  #length = 0;
  #starts = new Int32Array(FIRST_SLOTS / 2);
  #hashes = new Int32Array(FIRST_SLOTS / 2);
  #isAscii = true;
  readonly #positions: string[] = [];
  /** Open addressing: numbers of terms, from 1; 0 is a free slot. At most half of the slots are used. */
  #slots = new Int32Array(FIRST_SLOTS);

  constructor(private readonly unitsMax: number) {}

  get size(): number {
    return this.#positions.length;
  }

  /**
   * Adds a field to the term in these units. `isFolded`: the field contains the term only without an accent. Returns false when
   * the field has it already, or there is no room for it.
   */
  add(from: ArrayLike<number>, start: number, end: number, position: string, isFolded: boolean): boolean {
    let hash = 0;
    for (let i = start; i < end; i++) {
      hash = Math.imul(hash ^ (from[i] as number), FACTOR);
      hash ^= hash >>> 15;
    }
    const slot = this.#slotOf(from, start, end, hash);
    const number = this.#slots[slot] as number;
    if (number > 0) return this.#addPosition(number - 1, position, isFolded);
    if (this.#length > this.unitsMax) return false;
    this.#addTerm(from, start, end, hash, slot);
    this.#positions.push(isFolded ? `${position}A` : position);
    return true;
  }

  /** The first terms as a tsvector, as many as together have at most `unitsMax` units with their positions. */
  toVector(unitsMax: number): string {
    let count = 0;
    let length = 0;
    for (; count < this.size; count++) {
      const added =
        this.#endOf(count) - (this.#starts[count] as number) + (this.#positions[count] as string).length + 4;
      if (length + added > unitsMax) break;
      length += added;
    }
    if (length <= SHORT) return textOf(this.#written(new Uint16Array(length), count));
    if (!this.#isAscii) return utf16.decode(this.#written(new Uint16Array(length), count));
    return Buffer.from(this.#written(new Uint8Array(length), count).buffer).toString('latin1');
  }

  /** The first terms, written as `'term':1,2A `. */
  #written<U extends Uint16Array | Uint8Array>(to: U, count: number): U {
    let at = 0;
    for (let term = 0; term < count; term++) {
      const end = this.#endOf(term);
      to[at++] = QUOTE;
      for (let from = this.#starts[term] as number; from < end; from++) to[at++] = this.#units[from] as number;
      to[at++] = QUOTE;
      to[at++] = COLON;
      const positions = this.#positions[term] as string;
      for (let i = 0; i < positions.length; i++) to[at++] = positions.charCodeAt(i);
      to[at++] = SPACE;
    }
    return to;
  }

  #endOf(term: number): number {
    return term + 1 < this.size ? (this.#starts[term + 1] as number) : this.#length;
  }

  #addPosition(term: number, position: string, isFolded: boolean): boolean {
    const known = this.#positions[term] as string;
    if (known === position) return false;
    const added = isFolded ? `${position}A` : position;
    const last = known.slice(known.lastIndexOf(',') + 1);
    if (last === position || last === added) return false;
    const others = last === `${position}A` ? known.slice(0, -last.length) : `${known},`;
    this.#positions[term] = `${others}${added}`;
    return true;
  }

  /** The slot where the term is, or would be stored. */
  #slotOf(from: ArrayLike<number>, start: number, end: number, hash: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const number = this.#slots[slot] as number;
      if (number === 0) return slot;
      if (this.#hashes[number - 1] === hash && this.#isAt(number - 1, from, start, end)) return slot;
    }
  }

  #isAt(term: number, from: ArrayLike<number>, start: number, end: number): boolean {
    const first = this.#starts[term] as number;
    if (this.#endOf(term) - first !== end - start) return false;
    for (let i = start; i < end; i++) if (this.#units[first + i - start] !== from[i]) return false;
    return true;
  }

  #addTerm(from: ArrayLike<number>, start: number, end: number, hash: number, slot: number): void {
    const { size } = this;
    this.#starts[size] = this.#length;
    this.#hashes[size] = hash;
    this.#slots[slot] = size + 1;
    if (this.#length + end - start > this.#units.length) this.#units = larger(this.#units, 2);
    for (let i = start; i < end; i++) {
      const unit = from[i] as number;
      if (unit > LAST_ASCII) this.#isAscii = false;
      this.#units[this.#length++] = unit;
    }
    if (size + 1 === this.#starts.length) this.#grow();
  }

  #grow(): void {
    const before = this.#hashes;
    this.#starts = larger(this.#starts, 4);
    this.#hashes = larger(before, 4);
    this.#slots = new Int32Array(4 * this.#slots.length);
    const mask = this.#slots.length - 1;
    for (const [i, hash] of before.entries()) {
      let slot = hash & mask;
      while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
      this.#slots[slot] = i + 1;
    }
  }
}

function larger<A extends Int32Array | Uint16Array>(array: A, times: number): A {
  const grown = new (array.constructor as new (length: number) => A)(array.length * times);
  grown.set(array);
  return grown;
}
