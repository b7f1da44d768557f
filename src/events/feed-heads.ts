// The head of the feed: a snapshot of the database, which says what is committed; the highest number L of an event that it sees;
// and a floor, a number up to which every event is decided in that snapshot, so that readers need not look below it. The floor
// is exact: an event's transaction has its id before its number (outbox.ts). An observation reads L, and then the next
// transaction id N, so every event up to L has a transaction id below N. In a snapshot whose xmin is N or more, all of these
// have ended. (The snapshot's own xmax would be too low for N: ids from xmax on may be assigned already.) A crash of the
// database may cause ids that the snapshot takes for ended to be assigned again, and numbers too, but no number up to L, because
// that event is committed.
// Failures: the database's own. Contract: feed#cursors.
import { type App, perApp } from '../app.ts';
import { sql } from '../runtime/sql.ts';
import { detached } from '../runtime/work.ts';
import { parseSnapshot } from './snapshot.ts';

export interface FeedHead {
  /** The snapshot as Postgres writes it. */
  readonly snapshot: string;
  /** Every event up to this number is decided in the snapshot; 0 when that is not known. */
  readonly floor: number;
  /**
   * The highest number of an event that the snapshot sees. No event with a higher number is in the snapshot, whatever its
   * transaction id.
   */
  readonly last: number;
  /** The time of the head, in milliseconds of the database's clock. */
  readonly at: number;
}

/** A last number, and the transaction id below which all events up to it are. */
interface Observation {
  last: number;
  next: bigint;
}

/**
 * The maximum age of a head where repetitions are allowed, in milliseconds; from `RENEW_MS` on, a new one is taken meanwhile.
 */
const RECENT_MS = 500;
const RENEW_MS = 250;
/**
 * How many observations wait for the transactions before them to end; a long transaction keeps all later observations waiting.
 */
const WAITING_MAX = 64;
const XIDS = 2n ** 32n;

/** The order matters: the number is read before the next transaction id, which is `3 + age('3')` without its epoch. */
const OBSERVE = sql`
  with numbers as materialized (select platform.last_event() as last)
  select last, age('3'::xid) as age, pg_current_snapshot()::text as snapshot,
    (extract(epoch from clock_timestamp()) * 1000)::float8 as at
  from numbers`;

export class FeedHeads {
  #waiting: Observation[] = [];
  #floor = 0;
  #newest: { head: FeedHead; takenAt: number } | undefined;
  /** The observation in progress, and the next one, which all calls meanwhile share. */
  #current: Promise<unknown> = Promise.resolve();
  #next: Promise<FeedHead> | undefined;

  constructor(private readonly app: App) {}

  /** A head taken after this call. */
  take(): Promise<FeedHead> {
    this.#next ??= detached(() =>
      this.#current.then(() => {
        this.#next = undefined;
        const taken = this.#observe();
        // The callers get the failure; the queue only waits.
        this.#current = taken.catch(() => undefined);
        return taken;
      }),
    );
    return this.#next;
  }

  /** A head that is at most half a second old; undefined when there is none. */
  recent(): FeedHead | undefined {
    if (this.#newest === undefined) return undefined;
    const age = performance.now() - this.#newest.takenAt;
    if (age >= RENEW_MS && this.#next === undefined) {
      this.take().catch((cause: unknown) => this.app.log.debug('the head of the feed cannot be read', { cause }));
    }
    return age < RECENT_MS ? this.#newest.head : undefined;
  }

  async #observe(): Promise<FeedHead> {
    const takenAt = performance.now();
    const row = await this.app.db.first<{ last: number; age: number; snapshot: string; at: number }>(OBSERVE);
    if (row === undefined) throw new Error('the feed has no head');
    const { last, age, snapshot, at } = row;
    const { xmin, xmax } = parseSnapshot(snapshot);
    this.#settle(xmin);
    if (this.#waiting.length >= WAITING_MAX) this.#waiting.pop();
    this.#waiting.push({ last, next: xmax + BigInt.asUintN(32, BigInt(age) + 3n - (xmax % XIDS)) });
    const head = { snapshot, floor: this.#floor, last, at };
    this.#newest = { head, takenAt };
    return head;
  }

  #settle(xmin: bigint): void {
    const settled = this.#waiting.filter(({ next }) => next <= xmin);
    if (settled.length === 0) return;
    this.#waiting = this.#waiting.filter(({ next }) => next > xmin);
    this.#floor = Math.max(this.#floor, ...settled.map(({ last }) => last));
  }
}

export const feedHeadsOf = perApp((app) => new FeedHeads(app));
