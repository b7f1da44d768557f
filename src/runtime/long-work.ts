// Tickets that run long, limited so that short ones find slots, in all queues that use the same processors together: a
// statement of one pool takes the processor from those of another. While others are active, an owner may run few, and all
// together as many as are admitted; one may always run. An owner that has had little of it waits for no other's, so that the
// one long statement of a quiet tenant starts beside those of busy ones. What ends in one queue lets the others start first.
// Without clock and promises; times are milliseconds. Contract: neighbours#fair-shares.

/** What an owner has had is halved by so much of all together. */
const HALVED_BY_MS = 5_000;
/** An owner that has had a smaller part of the long work than this waits for no long ticket of others. */
const LIGHT_PART = 0.1;

interface OwnerWork {
  running: number;
  /** Time had, of which the past counts less and less. */
  hadMs: number;
}

/** The long tickets of all queues that use the same processors. */
export class LongWork {
  readonly #owners = new Map<string, OwnerWork>();
  #total: OwnerWork = { running: 0, hadMs: 0 };
  /** Queues that have a long ticket to start as soon as another one ends. */
  readonly #refused = new Set<() => void>();

  /** How many may run while others are active: of one owner, and of all. */
  constructor(
    readonly ownerMax: number,
    readonly max: number,
  ) {}

  /** Counts one that has become long. */
  started(owner: string): void {
    const work = this.#owners.get(owner) ?? { running: 0, hadMs: 0 };
    this.#owners.set(owner, work);
    work.running++;
    this.#total.running++;
  }

  /** Counts the end of one, of the queue with this `wake`. The other queues go first. */
  ended(owner: string, costMs: number, wake?: () => void): void {
    const work = this.#owners.get(owner);
    if (work === undefined) return;
    work.running--;
    work.hadMs += costMs;
    this.#total.running--;
    this.#forget(costMs);
    const refused = [...this.#refused];
    this.#refused.clear();
    for (const wakeOther of refused) if (wakeOther !== wake) wakeOther();
  }

  /** How many the owner runs. */
  of(owner: string): number {
    return this.#owners.get(owner)?.running ?? 0;
  }

  /** Whether one more may run when this part of them is admitted; otherwise the queue is woken when one has ended. One may always run. */
  admits(owner: string, part: number, wake?: () => void): boolean {
    const max = admitted(this.max, part) + (this.#isLight(owner) ? 1 : 0);
    const isBelow = this.#total.running < max && this.of(owner) < admitted(this.ownerMax, part);
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
    const ofAll = this.#isLight(owner) ? 0 : this.#total.running - admitted(this.max, part) - 1;
    return Math.max(0, ofOwner, Math.min(ofAll, running));
  }

  #isLight(owner: string): boolean {
    return (this.#owners.get(owner)?.hadMs ?? 0) <= this.#total.hadMs * LIGHT_PART;
  }

  #forget(costMs: number): void {
    const factor = 0.5 ** (costMs / HALVED_BY_MS);
    this.#total.hadMs = 0;
    for (const [owner, work] of this.#owners) {
      work.hadMs *= factor;
      if (work.running === 0 && work.hadMs < 1) this.#owners.delete(owner);
      else this.#total.hadMs += work.hadMs;
    }
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
  /** The part of the slots for long tickets that may be used now, from 0 to 1; without it, all. One may always run. */
  admitted?(): number;
  /** What every ticket takes longer now because there is much else: no ticket is long for that. */
  delayMs?(): number;
  /** Shared by queues whose tickets use the same processors: long tickets count in all of them together. */
  work?: LongWork;
  /** Called when a long ticket of another queue has ended, and one that had to wait here may start. */
  wake?(): void;
}
