// Keeps the locks of all tenants within the lock table of Postgres, which all connections share: it has room for
// `max_locks_per_transaction` for each, 64 unless configured, and once it is full, statements of anybody fail. A call that takes
// no more needs no room; of the others, as many run at once as fit together, or a single one. One that has to wait goes before all
// that come later, so that many smaller ones do not keep it waiting.
// Without a clock; times are milliseconds. Contract: neighbours#the-database.
import { LIMITS } from '../../limits.ts';

/** A call that waits for a connection, or has one. */
export interface LockHolder {
  readonly locks: number;
}

/** One that was to come next, and has not asked again for so long, no longer waits. */
const ASKS_AGAIN_MS = 100;
const { uncounted } = LIMITS.locks;

export class LockRoom {
  #taken = 0;
  #next: { holder: LockHolder; until: number } | undefined;

  constructor(private readonly max: number) {}

  /** Whether there is room for the call; it is asked for again soon if not. */
  admits(holder: LockHolder, now: number): boolean {
    if (holder.locks <= uncounted) return true;
    const isNext = this.#next === undefined || this.#next.holder === holder || this.#next.until < now;
    if (isNext && (this.#taken === 0 || this.#taken + holder.locks <= this.max)) return true;
    if (isNext) this.#next = { holder, until: now + ASKS_AGAIN_MS };
    return false;
  }

  take(holder: LockHolder): void {
    if (holder.locks <= uncounted) return;
    this.#taken += holder.locks;
    if (this.#next?.holder === holder) this.#next = undefined;
  }

  give({ locks }: LockHolder): void {
    if (locks > uncounted) this.#taken -= locks;
  }
}
