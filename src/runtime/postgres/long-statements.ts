// Which calls of a share run long, learnt from those that have ended: statements by their text, transactions all together.
// What is known to be long waits in a queue of its own, so that it neither holds up the quick calls of its share nor passes for
// one of them. Only what has been long is remembered, by its mean time, so that this costs nothing while there is nothing.
// Times are milliseconds. Contract: neighbours#fair-shares.
import { LONG_MS } from '../fair-share.ts';
import { sha256 } from '../tokens.ts';

/** How many of the last calls the mean is about: a quick one counts for more, and a slow one for so much time at most. */
const AVERAGED = { slow: 8, quick: 4 } as const;
const COUNTED_MAX_MS = 4 * LONG_MS;
/** Remembered; the one that is known for longest is forgotten first. */
const KEPT = 1_000;
/** One that has become quicker than this is forgotten. */
const QUICK_MS = LONG_MS / 4;
/** The mean after the first long one: a quick statement that was slow once or twice is not long. */
const FIRST_MS = LONG_MS / 2;
/** The time of a statement that was cancelled because it ran long. The statement then counts as long at once. */
export const YIELDED = Number.POSITIVE_INFINITY;
const TRANSACTION = 'begin';
/** Longer texts are kept as their hashes: one of a thousand comparisons has 300 KB. */
const TEXT_MAX = 500;

export class LongStatements {
  /** Mean times by statement, then by share. */
  readonly #known = new Map<string, Map<string, number>>();
  #count = 0;

  /** How many are remembered. */
  get size(): number {
    return this.#count;
  }

  /** Whether the share's calls of this statement are long; without a text, its transactions. */
  isLong(share: string, text: string = TRANSACTION): boolean {
    return this.#count > 0 && (this.#known.get(nameOf(text))?.get(share) ?? 0) >= LONG_MS;
  }

  /** Notes how long one has taken. */
  ended(share: string, text: string = TRANSACTION, ms = 0): void {
    if (this.#count === 0 && ms < LONG_MS) return;
    const name = nameOf(text);
    const byShare = this.#known.get(name);
    const before = byShare?.get(share);
    if (before === undefined) {
      if (ms >= LONG_MS) this.#remember(name, share, ms === YIELDED ? COUNTED_MAX_MS : FIRST_MS);
      return;
    }
    if (ms === YIELDED) return void byShare?.set(share, COUNTED_MAX_MS);
    const counted = Math.min(ms, COUNTED_MAX_MS);
    const mean = before + (counted - before) / (counted < before ? AVERAGED.quick : AVERAGED.slow);
    if (mean >= QUICK_MS) byShare?.set(share, mean);
    else this.#forget(name, share);
  }

  #remember(name: string, share: string, mean: number): void {
    const [oldest] = this.#count < KEPT ? [] : this.#known;
    const [first] = oldest?.[1].keys() ?? [];
    if (oldest !== undefined && first !== undefined) this.#forget(oldest[0], first);
    const byShare = this.#known.get(name) ?? new Map<string, number>();
    this.#count++;
    this.#known.set(name, byShare.set(share, mean));
  }

  #forget(name: string, share: string): void {
    const byShare = this.#known.get(name);
    if (byShare?.delete(share) !== true) return;
    this.#count--;
    if (byShare.size === 0) this.#known.delete(name);
  }
}

function nameOf(text: string): string {
  return text.length > TEXT_MAX ? sha256(text).toString('base64') : text;
}
