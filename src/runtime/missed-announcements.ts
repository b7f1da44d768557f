// Announcements that may not have reached other processes through the broker are counted in the database, and every process reads the
// count a few times a second. So a revoked right ends in time even when two processes cannot reach each other through the broker: only
// the publisher knows that it could not publish. A process also counts one announcement when it starts, because a process that was killed
// may have committed a change without announcing it. Times are milliseconds.
// Contract: decisions#changes-of-rights.
import type { Log } from './log.ts';
import { type Queries, sql } from './sql.ts';
import { detached } from './work.ts';
import { startWorker, type Worker } from './worker.ts';

/** Together with the time after which a publisher gives up (invalidations.ts), less than a second. */
const POLL_MS = 250;
const RETRY_MS = 250;

export class MissedAnnouncements {
  readonly #polling: Worker;
  #count: string | undefined;
  #counting: Promise<void> | null = null;
  #isClosed = false;

  /** `onMissed` is called when anything may have changed. */
  constructor(
    private readonly db: Queries,
    private readonly log: Log,
    private readonly onMissed: () => void,
  ) {
    this.#polling = startWorker({ name: 'missed announcements', once: () => this.#poll(), pollMs: POLL_MS, log });
  }

  /** Resolves when an announcement has been counted since the call, or the attempt has failed and will be repeated. Never rejects. */
  async count(): Promise<void> {
    // Processes may have read the count in progress before this call's change was announced.
    await this.#counting;
    this.#counting ??= this.#increment().finally(() => {
      this.#counting = null;
    });
    await this.#counting;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#polling.stop();
  }

  async #increment(): Promise<void> {
    try {
      await detached(() => this.db.rows(sql`update platform.missed_announcements set count = count + 1`));
    } catch (error) {
      if (this.#isClosed) return;
      this.log.warn('a missed announcement could not be counted; trying again', { error });
      setTimeout(() => void this.count(), RETRY_MS).unref?.();
    }
  }

  async #poll(): Promise<number> {
    const row = await detached(() =>
      this.db.first<{ count: string }>(sql`select count::text from platform.missed_announcements`),
    );
    const before = this.#count;
    this.#count = row?.count;
    if (before !== undefined && before !== this.#count) this.onMissed();
    return 0;
  }
}
