// Limits the tickets that run long, so that short tickets find slots. The limits hold for all queues that use the same processors, since a
// statement of one pool takes the processor from the statements of another. While others are active, an owner may run few long tickets, and
// all owners together as many as are admitted; one may always run. An owner that has used little of the time waits for no other owner's
// tickets, so the one long statement of a quiet tenant starts beside those of busy tenants. When a long ticket of one queue ends, the other
// queues may start theirs first. Uses no clock and no promises; times are milliseconds. Contract: neighbours#fair-shares.
import type { Throttle } from './throttle.ts';
import { UsedTime } from './used-time.ts';

/** Used time counts for half once all owners together have used this much more. */
const HALVED_BY_MS = 5_000;
/** An owner that has used a smaller part of the long work than this waits for no long ticket of another owner. */
const LIGHT_PART = 0.1;

/** The long tickets of all queues that use the same processors. */
export class LongWork {
  /** How many long tickets each owner runs. */
  readonly #owners = new Map<string, number>();
  #running = 0;
  readonly #used = new UsedTime(HALVED_BY_MS);
  /** The `wake` of each queue that has a long ticket to start as soon as another one ends. */
  readonly #refused = new Set<() => void>();

  /** How many long tickets may run while others are active: of one owner, and of all owners. */
  constructor(
    readonly ownerMax: number,
    readonly max: number,
  ) {}

  /** Counts a ticket that has become long. */
  started(owner: string): void {
    this.#owners.set(owner, this.of(owner) + 1);
    this.#running++;
  }

  /** Counts the end of a long ticket, in the queue with this `wake`. The other queues are woken first. */
  ended(owner: string, costMs: number, wake?: () => void): void {
    const running = this.of(owner);
    if (running === 0) return;
    if (running > 1) this.#owners.set(owner, running - 1);
    else this.#owners.delete(owner);
    this.#running--;
    this.#used.add(owner, costMs);
    const refused = [...this.#refused];
    this.#refused.clear();
    for (const wakeOther of refused) if (wakeOther !== wake) wakeOther();
  }

  /** How many long tickets the owner runs. */
  of(owner: string): number {
    return this.#owners.get(owner) ?? 0;
  }

  /** Whether the owner may run one more while this part of the limits is admitted. If not, the queue is woken when a ticket ends. */
  admits(owner: string, part: number, wake?: () => void): boolean {
    const max = admitted(this.max, part) + (this.#isLight(owner) ? 1 : 0);
    const isBelow = this.#running < max && this.of(owner) < admitted(this.ownerMax, part);
    if (!isBelow && wake !== undefined) this.#refused.add(wake);
    return isBelow;
  }

  /**
   * How many more long tickets the owner runs than are admitted now. An owner that has used little is not held to the limit of all
   * owners, and the one extra ticket that it may run is not counted as the excess of the others.
   */
  excess(owner: string, part: number): number {
    const running = this.of(owner);
    const ofOwner = running - admitted(this.ownerMax, part);
    const ofAll = this.#isLight(owner) ? 0 : this.#running - admitted(this.max, part) - 1;
    return Math.max(0, ofOwner, Math.min(ofAll, running));
  }

  #isLight(owner: string): boolean {
    return this.#used.partOf(owner) <= LIGHT_PART;
  }
}

/** How many of `max` may run while this part of them is admitted, rounded up; at least one. */
function admitted(max: number, part: number): number {
  // A rounding error above a whole number must not round up to the next one.
  return Math.max(1, Math.ceil(max * part - 1e-9));
}

/** Limits on tickets that run long, so that short ones find slots. */
export interface LongLimits {
  /** Whether other shares are active. While they are, this one has at most a quarter of the slots. */
  areOthersActive(share: string): boolean;
  /** The part of the slots that may be used now, from 0 to 1; all if absent. One ticket may always run. */
  admitted?(): number;
  /** Shared by queues whose tickets use the same processors. Without it, all short tickets of an owner are admitted. */
  throttle?: Throttle;
  /** How much longer every ticket takes now because the machine is busy. This time does not make a ticket long. */
  delayMs?(): number;
  /** Shared by queues whose tickets use the same processors: counts the long tickets of all of them. */
  work?: LongWork;
  /** Called when a long ticket of another queue has ended, so that a waiting ticket of this queue may start. */
  wake?(): void;
}
