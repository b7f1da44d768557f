// Streams of rows: a query's rows in batches, from one snapshot. Each stream has a connection of its own until it ends, and
// its reader sets the pace.
// Failures: those of the query, before the first batch and after it. Contract: decisions#export.
import postgres from 'postgres';

import { unavailable } from '../../errors.ts';
import { newId } from '../ids.ts';
import { compile, type Sql } from '../sql.ts';
import type { RawRow } from './connection.ts';
import { isTooMuchSpace } from './failures.ts';
import type { Lease } from './lease.ts';
import type { Pool } from './pool.ts';
import { bindValues } from './values.ts';

/** Names of cursors are of this process alone: connections to the embedded database share one session, also those of others. */
const NAMES = `rows_${newId().replaceAll('-', '')}`;
let cursors = 0;

/** Bytes of a stream's rows that are in memory at once, about. */
const STREAM_BATCH_BYTES = 1_048_576;
/** Later fetches are for as many rows as one batch probably has: the embedded database holds a fetch in memory. */
const FIRST_FETCH_ROWS = 16;

/**
 * Uses a cursor `with hold`: Postgres materialises the result, so no transaction stays open while the reader is
 * slow. An open one would hold back vacuum and, on the embedded database, block every other connection. Only a result that takes
 * more disk than a statement may is read in a transaction, which writes none of it to disk.
 */
export async function* streamRows(pool: Pool, query: Sql, batchRows: number): AsyncGenerator<RawRow[]> {
  const { text, parameters } = compile(query);
  bindValues(parameters);
  const cursor = `${NAMES}_${++cursors}`;
  const { lease, end } = await openLease(pool);
  let isHeld = true;
  try {
    isHeld = await declare(lease, cursor, text, parameters);
    let rows = Math.min(batchRows, FIRST_FETCH_ROWS);
    for (let isOver = false; !isOver; ) {
      const fetched = { rows: 0, bytes: 0 };
      lease.extendDeadline();
      for await (const batch of lease.batches(`fetch forward ${Math.trunc(rows)} from ${cursor}`, STREAM_BATCH_BYTES)) {
        fetched.rows += batch.rows.length;
        fetched.bytes += batch.bytes;
        yield batch.rows;
        lease.extendDeadline();
      }
      isOver = fetched.rows < rows;
      rows = Math.min(batchRows, rows * 4, Math.ceil((rows * STREAM_BATCH_BYTES) / Math.max(1, fetched.bytes)));
    }
  } catch (error) {
    throw lease.errorFor(error);
  } finally {
    if (isHeld) await closeCursor(lease, cursor);
    else await lease.rollback();
    await end();
  }
}

/**
 * Declares the cursor; whether it is held. In a transaction the rows come by index where one has them in their order, since
 * sorting them may be what takes the disk.
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

/** Borrows a connection until `end` is called. */
async function openLease(pool: Pool): Promise<{ lease: Lease; end: () => Promise<void> }> {
  const opened = Promise.withResolvers<Lease>();
  const finished = Promise.withResolvers<void>();
  const leased = pool.lease(async (lease) => {
    opened.resolve(lease);
    await finished.promise;
  });
  leased.catch(opened.reject);
  const lease = await opened.promise;
  const end = (): Promise<void> => {
    finished.resolve();
    return leased;
  };
  return { lease, end };
}
