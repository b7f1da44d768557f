// Streams of rows: a query's rows in batches, from one snapshot. The reader sets the pace, but must not hold up others: the connection of a
// slow reader is lent to waiting calls, and taken back for the next rows. Times are milliseconds.
// Failures: those of the query, before the first batch and after it; 429 when rows that cannot wait on the server are read too slowly
// while others wait for the connection.
// Contract: decisions#export, neighbours#fair-shares.
import postgres from 'postgres';

import { rateLimited, unavailable } from '../../errors.ts';
import { newId } from '../ids.ts';
import { compile, type Sql } from '../sql.ts';
import type { Connection, RawRow } from './connection.ts';
import { isTooMuchSpace } from './failures.ts';
import type { Lease } from './lease.ts';
import type { Pool } from './pool.ts';
import { StreamPlace, WAITED_LONG_MS } from './stream-place.ts';
import { bindValues } from './values.ts';

/** Cursor names are unique to this process: all connections to the embedded database share one session, even those of other processes. */
const NAMES = `rows_${newId().replaceAll('-', '')}`;
let cursors = 0;

/** About how many bytes of a stream's rows are in memory at once: more than one record has. */
const STREAM_BATCH_BYTES = 2_097_152;
/** Target bytes of a fetch. Few, so that a fetch seldom fills a batch before its end: meanwhile the connection cannot be lent. */
const FETCH_BYTES = 524_288;
/** A fetch asks for the rows that have about these bytes, judged by the previous fetch, and for at most this many times its rows. */
const FETCH_GROWTH = 4;

const TURN_MS = 100;
/** A reader that has asked for nothing for this time is slow. */
const SLOW_MS = 250;
/** Streams of a process. Each holds a batch of rows here and a file on the server, even while its connection is lent. */
const STREAMS_MAX = 64;
/** Bytes per second that a reader must take while others wait for a connection that cannot be lent. */
const LEAST_PACE = 524_288;

export class Streams {
  readonly #open = new Set<StreamPlace>();
  #clock: ReturnType<typeof setInterval> | undefined;

  constructor(readonly pool: Pool) {}

  /**
   * Uses a cursor `with hold`: Postgres materialises the result, so no transaction stays open while the reader is slow. An open
   * transaction would hold back vacuum and, on the embedded database, block every other connection. Only a result that needs more
   * disk than a statement may use is read in a transaction, which writes none of it to disk.
   */
  async *rows(query: Sql, batchRows: number): AsyncGenerator<RawRow[]> {
    const { text, parameters } = compile(query);
    bindValues(parameters);
    const cursor = `${NAMES}_${++cursors}`;
    let isHeld = true;
    const close = (lease: Lease): Promise<void> => (isHeld ? closeCursor(lease, cursor) : lease.rollback());
    const place = await StreamPlace.take(this.pool, close);
    this.#add(place);
    try {
      isHeld = await declare(await place.lease(), cursor, text, parameters);
      if (isHeld) place.allowLending();
      let rows = 1;
      for (let isOver = false; !isOver; ) {
        const fetched = { rows: 0, bytes: 0 };
        for await (const batch of place.fetch(`fetch forward ${rows} from ${cursor}`, STREAM_BATCH_BYTES)) {
          fetched.rows += batch.rows.length;
          fetched.bytes += batch.bytes;
          yield batch.rows;
        }
        isOver = fetched.rows < rows;
        rows = Math.min(batchRows, rows * FETCH_GROWTH, Math.ceil((rows * FETCH_BYTES) / Math.max(1, fetched.bytes)));
      }
    } catch (error) {
      throw place.errorFor(error);
    } finally {
      this.#remove(place);
      await place.end();
    }
  }

  #add(place: StreamPlace): void {
    place.connection.cursors++;
    this.#open.add(place);
    this.#clock ??= setInterval(() => this.#serveWaiting(), TURN_MS);
    this.#clock.unref?.();
  }

  #remove(place: StreamPlace): void {
    place.connection.cursors--;
    this.#open.delete(place);
    if (this.#open.size > 0) return;
    clearInterval(this.#clock);
    this.#clock = undefined;
  }

  /** Lends connections to waiting calls, starting with the slowest readers; if no connection can be lent, one reader is cut. */
  #serveWaiting(): void {
    const waiting = this.pool.waiting();
    if (waiting.length === 0) return;
    const now = performance.now();
    const slow = [...this.#open].filter((place) => place.idleMs(now) >= SLOW_MS);
    slow.sort((a, b) => b.idleMs(now) - a.idleMs(now));
    for (const call of waiting) {
      if (call.only === undefined && this.#open.size >= STREAMS_MAX) continue;
      const at = slow.findIndex((place) => place.suits(call));
      if (at >= 0) slow.splice(at, 1)[0]?.lend();
      else if (call.ms >= WAITED_LONG_MS) {
        this.#cutSlowest(call, now);
        return;
      }
    }
  }

  #cutSlowest(call: { only: Connection | undefined }, now: number): void {
    let slowest: StreamPlace | undefined;
    let least = LEAST_PACE;
    for (const place of this.#open) {
      const pace = place.suits(call) ? place.pace(now) : undefined;
      if (pace === undefined || pace >= least) continue;
      slowest = place;
      least = pace;
    }
    void slowest?.cut(rateLimited('the rows were read too slowly while others waited for the connection', 5));
  }
}

/**
 * Declares the cursor; returns whether it is held. In a transaction the rows come by index where an index has their order, since
 * sorting may be what needs the disk.
 */
async function declare(lease: Lease, cursor: string, text: string, parameters: unknown[]): Promise<boolean> {
  const declaration = (hold: string): string => `declare ${cursor} no scroll cursor ${hold} for ${text}`;
  try {
    await lease.run(declaration('with hold'), parameters, { plans: 'each time' });
    return true;
  } catch (error) {
    if (!isTooMuchSpace(error)) throw error;
  }
  lease.extendDeadline();
  await lease.begin();
  try {
    await lease.exec('set local enable_sort to off');
    await lease.run(declaration(''), parameters, { plans: 'each time' });
    return false;
  } catch (error) {
    await lease.rollback();
    throw error;
  }
}

/** Closes the cursor, or the connection when that fails. A failed `declare` left no cursor. */
async function closeCursor(lease: Lease, cursor: string): Promise<void> {
  const { connection } = lease;
  await lease.settled();
  if (connection.broken) return;
  try {
    await connection.exec(`close ${cursor}`);
  } catch (error) {
    if (!isMissingCursor(error)) connection.fail(unavailable('a cursor could not be closed', error));
  }
}

function isMissingCursor(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === '34000';
}
