// Requests come first. A delivery and the writing down of its outcome take about as much of the processor and the
// database as the write that it tells of, and whoever made that write waits for the answer, while nobody waits for a
// delivery. So in a process whose calls nearly all wait for a connection to the database, which is what it has least
// of, rounds of claiming are spaced and small: it still sends over a hundred a second, and what piles up meanwhile
// leaves afterwards at full speed. A round is put off by ROUND_MS at most, and at any other time not at all.
// Times are milliseconds since the epoch.
import { LIMITS } from '../../limits.ts';
import type { Database } from '../../runtime/postgres.ts';

/** From one round to the next one, and how many deliveries one may claim, in a busy process. */
const ROUND_MS = 250;
const ROUND_CLAIMS = 32;
/** The share of commits, about so many of the last ones, at which calls waited, from which on a process is busy. */
const OVERLOADED_SHARE = 0.5;
const AVERAGED_COMMITS = 32;
/** How long what was seen at a commit holds. */
const SAMPLE_VALID_MS = 25;

export class LoadShedding {
  #waitingShare = 0;
  #sampledAt = 0;
  #roundAt = 0;

  constructor(private readonly db: Pick<Database, 'stats'>) {}

  /** To be called at every commit. */
  sample(nowMs: number): void {
    const known = nowMs < this.#sampledAt + SAMPLE_VALID_MS ? this.#waitingShare : 0;
    const waits = this.db.stats().waiting > 0 ? 1 : 0;
    this.#waitingShare = known + (waits - known) / AVERAGED_COMMITS;
    this.#sampledAt = nowMs;
  }

  /** Whether calls have waited for the database at most of the last commits, up to now. */
  isOverloaded(nowMs: number): boolean {
    return this.#waitingShare > OVERLOADED_SHARE && nowMs < this.#sampledAt + SAMPLE_VALID_MS;
  }

  /** Begins a round; false when it is too early for it, to be asked again soon. */
  tryBeginRound(nowMs: number): boolean {
    if (this.isOverloaded(nowMs) && nowMs < this.#roundAt + ROUND_MS) return false;
    this.#roundAt = nowMs;
    return true;
  }

  /** How many deliveries of each may leave in a round that looks at so many subscriptions. */
  claimLimit(subscriptions: number, nowMs: number): number {
    return this.isOverloaded(nowMs) ? Math.ceil(ROUND_CLAIMS / subscriptions) : LIMITS.webhook.perSubscription;
  }
}
