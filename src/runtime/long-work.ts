// Tickets that run long, limited so that short ones find slots, in all queues that use the same processors together: a
// statement of one pool takes the processor from those of another. While others are active, an owner may run few, and all
// together as many as are admitted; one may always run. An owner that has had little of it waits for no other's, so that the
// one long statement of a quiet tenant starts beside those of busy ones. What ends in one queue lets the others start first.
// Without clock and promises; times are milliseconds. Contract: neighbours#fair-shares.
import type { GivingWay } from './giving-way.ts';
import { TimeHad } from './time-had.ts';

/** Of the long work had, what counts for half. */
const HALVED_BY_MS = 5_000;
/** An owner that has had a smaller part of the long work than this waits for no long ticket of others. */
const LIGHT_PART = 0.1;

/** The long tickets of all queues that use the same processors. */
export class LongWork {
  /** How many each owner runs. */
  readonly #owners = new Map<string, number>();
  #running = 0;
  readonly #had = new TimeHad(HALVED_BY_MS);
  /** Queues that have a long ticket to start as soon as another one ends. */
  readonly #refused = new Set<() => void>();

  /** How many may run while others are active: of one owner, and of all. */
  constructor(
    readonly ownerMax: number,
    readonly max: number,
  ) {}

  /** Counts one that has become long. */
  started(owner: string): void {
    this.#owners.set(owner, this.of(owner) + 1);
    this.#running++;
  }

  /** Counts the end of one, of the queue with this `wake`. The other queues go first. */
  ended(owner: string, costMs: number, wake?: () => void): void {
    const running = this.of(owner);
    if (running === 0) return;
    if (running > 1) this.#owners.set(owner, running - 1);
    else this.#owners.delete(owner);
    this.#running--;
    this.#had.add(owner, costMs);
    const refused = [...this.#refused];
    this.#refused.clear();
    for (const wakeOther of refused) if (wakeOther !== wake) wakeOther();
  }

  /** How many the owner runs. */
  of(owner: string): number {
    return this.#owners.get(owner) ?? 0;
  }

  /** Whether one more may run when this part of them is admitted; otherwise the queue is woken when one has ended. One may always run. */
  admits(owner: string, part: number, wake?: () => void): boolean {
    const max = admitted(this.max, part) + (this.#isLight(owner) ? 1 : 0);
    const isBelow = this.#running < max && this.of(owner) < admitted(this.ownerMax, part);
    if (!isBelow && wake !== undefined) this.#refused.add(wake);
    return isBelow;
  }

  /**
   * How many the owner runs more than are admitted now; one that has had little is not held to the limit of all, and its one more
   * is no excess of the others.
   */
  excess(owner: string, part: number): number {
    const running = this.of(owner);
    const ofOwner = running - admitted(this.ownerMax, part);
    const ofAll = this.#isLight(owner) ? 0 : this.#running - admitted(this.max, part) - 1;
    return Math.max(0, ofOwner, Math.min(ofAll, running));
  }

  #isLight(owner: string): boolean {
    return this.#had.partOf(owner) <= LIGHT_PART;
  }
}

/** How many may run of `max` when this part of them is admitted: a part of one is one. */
function admitted(max: number, part: number): number {
  // What a product is more than a whole number by rounding is not another one.
  return Math.max(1, Math.ceil(max * part - 1e-9));
}

/** What limits tickets that run long, so that short ones find slots. */
export interface LongLimits {
  /** Whether shares other than this one are active: while they are, it has at most a quarter of the slots. */
  areOthersActive(share: string): boolean;
  /** The part of the slots that may be used now, from 0 to 1; without it, all. One ticket may always run. */
  admitted?(): number;
  /** Shared by queues whose tickets use the same processors; without it, an owner's short tickets are admitted all. */
  givingWay?: GivingWay;
  /** What every ticket takes longer now because there is much else: no ticket is long for that. */
  delayMs?(): number;
  /** Shared by queues whose tickets use the same processors: long tickets count in all of them together. */
  work?: LongWork;
  /** Called when a long ticket of another queue has ended, and one that had to wait here may start. */
  wake?(): void;
}
