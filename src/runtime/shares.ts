// The shares of a fair queue that have work, and some that had work before. An owner has one share, and a second one for tickets that are
// known to run long. A share that was idle starts at the level of the others: idle time earns no credit. Idle shares are forgotten,
// except the few that have used the most time and those with long tickets: they would otherwise start again without that record.
// Uses no clock; times are milliseconds. Contract: neighbours#fair-shares.
import { isLong, newShare, type Share } from './fair-share.ts';

/** Idle shares that are remembered because they have used more time than the others. */
const IDLE_KEPT = 32;
/** The name of a share for long tickets begins with this. */
const LONG = 'long ';

export class Shares<T> {
  readonly #byName = new Map<string, Share<T>>();
  #sweepAt = IDLE_KEPT;

  get size(): number {
    return this.#byName.size;
  }

  /** The owner's share. If it has been idle, it starts at this level. */
  activate(owner: string, ofLong: boolean, level: number): Share<T> {
    const name = ofLong ? `${LONG}${owner}` : owner;
    const known = this.#byName.get(name);
    if (known !== undefined) {
      if (known.running + known.waiting === 0) known.used = Math.max(known.used, level);
      return known;
    }
    const share = newShare<T>(name, owner, level, ofLong);
    const sibling = this.#byName.get(ofLong ? owner : `${LONG}${owner}`);
    share.sibling = sibling;
    if (sibling !== undefined) sibling.sibling = share;
    this.#byName.set(name, share);
    return share;
  }

  /** Forgets an idle share, unless it has used more time than this level or is known for long tickets. */
  forget(share: Share<T>, level: number): void {
    if (share.used <= level && !isLong(share)) this.#byName.delete(share.name);
    else if (this.#byName.size >= this.#sweepAt) this.#sweep();
  }

  clear(): void {
    this.#byName.clear();
  }

  /** Forgets the idle shares, except those that have used the most time. */
  #sweep(): void {
    const idle = [...this.#byName.values()].filter(({ running, waiting }) => running + waiting === 0);
    idle.sort((a, b) => b.used - a.used);
    for (const { name } of idle.slice(IDLE_KEPT)) this.#byName.delete(name);
    this.#sweepAt = this.#byName.size + IDLE_KEPT;
  }
}
