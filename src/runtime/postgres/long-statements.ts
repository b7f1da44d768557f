// Learns which calls of a share run long from calls that have ended: statements by their text, all transactions together. Calls that are
// known to be long wait in a queue of their own. So they do not hold up the quick calls of their share, and do not pass for quick calls.
// Only calls that have been long are remembered, by their mean time, so this costs nothing while there are none.
// Times are milliseconds. Contract: neighbours#fair-shares.
import { LONG_MS } from '../fair-share.ts';
import { sha256 } from '../tokens.ts';

/** Over how many of the last calls the mean goes. A quick call has more weight, and a slow call counts for a limited time. */
const AVERAGED = { slow: 8, quick: 4 } as const;
const COUNTED_MAX_MS = 4 * LONG_MS;
/** How many are remembered; the one that has been known for longest is forgotten first. */
const KEPT = 1_000;
/** A statement whose mean has become less than this is forgotten. */
const QUICK_MS = LONG_MS / 4;
/** The mean after the first long call: a quick statement that was slow once or twice is not long. */
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

  /** How many means are remembered. */
  get size(): number {
    return this.#count;
  }

  /** Whether the share's calls of this statement run long; without a text, whether its transactions do. */
  isLong(share: string, text: string = TRANSACTION): boolean {
    return this.#count > 0 && (this.#known.get(nameOf(text))?.get(share) ?? 0) >= LONG_MS;
  }

  /** Notes how long a call took. */
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
