// Load shedding: requests come before deliveries. To send a delivery and store its result costs the processor and the database about
// as much as the write that caused it, but only the write has a client waiting. While nearly all queries of this process wait for a
// database connection, its scarcest resource, claim rounds are spaced and small. Over a hundred deliveries a second are still sent,
// and the backlog follows at full speed afterwards. Under overload a round is delayed by ROUND_MS at most, otherwise not at all.
// Times are milliseconds since the epoch.
import { LIMITS } from '../../limits.ts';
import type { Database } from '../../runtime/postgres.ts';

/** Under overload: the interval of claim rounds, and the deliveries that one round may claim. */
const ROUND_MS = 250;
const ROUND_CLAIMS = 32;
/** Overload: queries were waiting at more than this share of the last AVERAGED_COMMITS or so commits. */
const OVERLOADED_SHARE = 0.5;
const AVERAGED_COMMITS = 32;
/** How long a sample stays valid. */
const SAMPLE_VALID_MS = 25;

export class LoadShedding {
  #waitingShare = 0;
  #sampledAt = 0;
  #roundAt = 0;

  constructor(private readonly db: Pick<Database, 'stats'>) {}

  /** Must be called at every commit. */
  sample(nowMs: number): void {
    const average = nowMs < this.#sampledAt + SAMPLE_VALID_MS ? this.#waitingShare : 0;
    const isWaiting = this.db.stats().waiting > 0 ? 1 : 0;
    this.#waitingShare = average + (isWaiting - average) / AVERAGED_COMMITS;
    this.#sampledAt = nowMs;
  }

  isOverloaded(nowMs: number): boolean {
    return this.#waitingShare > OVERLOADED_SHARE && nowMs < this.#sampledAt + SAMPLE_VALID_MS;
  }

  /** Begins a round; false if it is too early for one. */
  tryBeginRound(nowMs: number): boolean {
    if (this.isOverloaded(nowMs) && nowMs < this.#roundAt + ROUND_MS) return false;
    this.#roundAt = nowMs;
    return true;
  }

  /** The limit of deliveries per subscription in a round of `subscriptions` subscriptions. */
  claimLimit(subscriptions: number, nowMs: number): number {
    return this.isOverloaded(nowMs) ? Math.ceil(ROUND_CLAIMS / subscriptions) : LIMITS.webhook.perSubscription;
  }
}
