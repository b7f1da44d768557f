// A value of the database for metrics. It is read in the background, at most every five seconds, and less often when a read takes long:
// reading takes a twentieth of the time at most. A scrape waits for the value only briefly. It gets the last value if that is recent,
// else null. Never rejects. Times are milliseconds.
// Contract: neighbours#who-does-what.
import { literal, type Sql, sql } from './sql.ts';
import { within } from './within.ts';
import { detached } from './work.ts';

const EVERY_MS = 5_000;
const REST_FACTOR = 20;
const WAIT_MS = 500;
/** After a longer time without a successful read, the value is unknown. */
const KEEP_MS = 300_000;

export class BackgroundRead<T> {
  #value: T | null = null;
  #readAt = Number.NEGATIVE_INFINITY;
  #dueAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  /** `onFailure` gets the error of a failed read. */
  constructor(
    private readonly read: () => Promise<T>,
    private readonly onFailure: (error: unknown) => void,
  ) {}

  async latest(): Promise<T | null> {
    if (this.#reading === null && performance.now() >= this.#dueAt) this.#reading = this.#start();
    if (this.#reading !== null) await within(WAIT_MS, this.#reading).catch(() => undefined);
    return performance.now() - this.#readAt < KEEP_MS ? this.#value : null;
  }

  async #start(): Promise<void> {
    const startedAt = performance.now();
    try {
      this.#value = await detached(this.read);
      this.#readAt = performance.now();
    } catch (error) {
      this.#value = null;
      this.onFailure(error);
    }
    const tookMs = performance.now() - startedAt;
    this.#dueAt = performance.now() + Math.max(EVERY_MS, REST_FACTOR * tookMs);
    this.#reading = null;
  }
}

/** The estimated entries of an index: the count at the last vacuum or analyze, scaled by its growth since, as the planner does. */
export function estimatedEntries(index: string): Sql {
  return sql`(
    select greatest(c.reltuples, 0)::float8 / greatest(c.relpages, 1)
      * (pg_relation_size(c.oid) / current_setting('block_size')::int)
    from pg_class as c
    where c.oid = ${literal(index)}::regclass)`;
}
