// Requests come first. A delivery and the writing down of its outcome take about as much of the processor and the
// database as the write that it tells of, and whoever made that write waits for the answer, while nobody waits for a
// delivery. So while calls wait for a connection to the database, which is what a process has least of, rounds of
// claiming are spaced and small: a saturated process still sends a few hundred a second, and what piles up meanwhile
// leaves afterwards at full speed. A round is put off by ROUND_MS at most, and at any other time not at all.
// Times are milliseconds since the epoch.
import { LIMITS } from '../limits.ts';
import type { Database } from '../runtime/postgres.ts';

/** From one round to the next one, and how many deliveries one may claim, in a busy process. */
const ROUND_MS = 125;
const ROUND_CLAIMS = 32;
/** How long what was seen at a commit holds. */
const SEEN_MS = 25;

export class Restraint {
  #seenAt = 0;
  #roundAt = 0;

  constructor(private readonly db: Pick<Database, 'stats'>) {}

  /** To be called at every commit. */
  look(nowMs: number): void {
    if (this.db.stats().waiting > 0) this.#seenAt = nowMs;
  }

  /** Whether calls have waited for the database just now. */
  isBusy(nowMs: number): boolean {
    return nowMs < this.#seenAt + SEEN_MS;
  }

  /** Begins a round; false when it is too early for it, to be asked again soon. */
  begins(nowMs: number): boolean {
    if (this.isBusy(nowMs) && nowMs < this.#roundAt + ROUND_MS) return false;
    this.#roundAt = nowMs;
    return true;
  }

  /** How many deliveries of each may leave in a round that looks at so many subscriptions. */
  mostOfEach(subscriptions: number, nowMs: number): number {
    return this.isBusy(nowMs) ? Math.ceil(ROUND_CLAIMS / subscriptions) : LIMITS.webhook.perSubscription;
  }
}
