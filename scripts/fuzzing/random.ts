// Random choices from a seed: the same seed gives the same sequence, so that a finding can be repeated.
// Not for secrets.
// Numbers are from 0 (included) to 1 (excluded).
import { seededRandom } from '../../test/support/random.ts';

export class Random {
  /** The next number. */
  readonly next: () => number;

  constructor(seed: number) {
    this.next = seededRandom(seed);
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number from 0 to `below` - 1. */
  below(below: number): number {
    return Math.floor(this.next() * below);
  }

  /** One of the items. Throws on an empty list. */
  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError('nothing to pick from');
    return items[this.below(items.length)] as T;
  }
}
