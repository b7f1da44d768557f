// Access to Postgres: a pool for requests with short deadlines, small pools for slow work and for streams,
// and transactions on the first two. No call hangs or is retried: it ends with rows, a Postgres error
// (code, constraint_name, column_name, detail), or 503 when the database is unavailable or too slow. The
// outcome of a write whose connection broke is unknown; it is reported as failed. Times are milliseconds.
// Contract: decisions#responses, decisions#operations.
import postgres from 'postgres';

import { unavailable } from '../errors.ts';
import type { ByteBudget } from './byte-budget.ts';
import { newId } from './ids.ts';
import type { Log } from './log.ts';
import type { Connection } from './postgres/connection.ts';
import { guardAgainstLateWrites } from './postgres/failures.ts';
import { Pool } from './postgres/pool.ts';
import { bindValues } from './postgres/values.ts';
import { compile, type Queries, type Sql, sql, type Tx } from './sql.ts';

/** A transaction that can also run scripts. */
export interface Transaction extends Tx {
  /** Several statements without values. */
  exec(text: string): Promise<void>;
}

/** Queries and transactions on one pool. */
export interface PooledQueries extends Queries {
  /** Commits when `work` resolves; rolls back and rethrows when it rejects or when a query in it failed. */
  begin<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
}

export interface Database extends PooledQueries {
  /** Identifies this process's connections on the server. */
  readonly id: string;
  /** Whether the process with this id is connected to the server. */
  isConnected(id: string): Promise<boolean>;
  /** For index builds, scans and exports: no statement_timeout, ten minutes per call. */
  readonly slow: PooledQueries;
  /** Batches of `batchRows` rows from one snapshot, in constant memory. Ends when the reader stops early. */
  stream<T>(query: Sql, batchRows: number): AsyncIterable<T[]>;
  /** Several statements without values, outside a transaction, on the slow pool. */
  exec(text: string): Promise<void>;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
  /** The request pool: open connections, those in use, and calls waiting for one. */
  stats(): { size: number; inUse: number; waiting: number };
  /** Waits up to five seconds for calls in flight, then closes every connection. */
  close(): Promise<void>;
}

export interface DatabaseOptions {
  url: string;
  /** Connections for requests, and for slow work. */
  max?: number;
  slowMax?: number;
  /** Connections for streams, each held until its reader finishes. */
  streamMax?: number;
  queryTimeoutMs?: number;
  log: Log;
}

const CONNECT_TIMEOUT_MS = 3_000;
const SLOW_TIMEOUT_MS = 600_000;
const IDLE_IN_TRANSACTION_MS = 60_000;
const CLOSE_GRACE_MS = 5_000;

/** Creates the pools; connections open on demand. Throws only for a malformed address. */
export function openDatabase(options: DatabaseOptions): Database {
  const { url, log, max = 8, slowMax = 2, streamMax = 4, queryTimeoutMs = 4_000 } = options;
  guardAgainstLateWrites(log);
  const base = { url, log, connectTimeoutMs: CONNECT_TIMEOUT_MS };
  const id = newId();
  const session = { timezone: 'UTC', application_name: applicationName(id) };
  const fast = new Pool({
    ...base,
    name: 'requests',
    max,
    timeoutMs: queryTimeoutMs,
    session: {
      ...session,
      statement_timeout: Math.max(1, queryTimeoutMs - 250),
      idle_in_transaction_session_timeout: queryTimeoutMs,
    },
  });
  const slowOptions = {
    ...base,
    timeoutMs: SLOW_TIMEOUT_MS,
    session: { ...session, idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS, cursor_tuple_fraction: 1 },
  };
  const slow = new Pool({ ...slowOptions, name: 'slow work', max: slowMax });
  const streamed = new Pool({ ...slowOptions, name: 'streams', max: streamMax });
  const requests = pooledQueries(fast);
  return {
    ...requests,
    id,
    isConnected: (other) => isConnected(requests, other),
    slow: pooledQueries(slow),
    stream: (query, batchRows) => streamRows(streamed, query, batchRows),
    exec: (text) => slow.lease((connection) => connection.exec(text)),
    ping: async () => void (await requests.rows(sql`select 1`)),
    stats: () => fast.stats(),
    close: async () => void (await Promise.all([fast, slow, streamed].map((pool) => pool.close(CLOSE_GRACE_MS)))),
  };
}

function applicationName(id: string): string {
  return `tenant-data-service ${id}`;
}

async function isConnected(queries: Queries, id: string): Promise<boolean> {
  const found = await queries.first(sql`
    select from pg_stat_activity where application_name = ${applicationName(id)} limit 1`);
  return found !== undefined;
}

type Run = (work: (connection: Connection) => Promise<unknown>) => Promise<unknown>;

/** Queries on the connection that `run` provides. */
function queriesOn(run: Run): Queries {
  const rows = async <T>(query: Sql, budget?: ByteBudget): Promise<T[]> => {
    const { text, parameters } = compile(query);
    bindValues(parameters);
    return run((connection) => connection.run(text, parameters, true, budget)) as Promise<T[]>;
  };
  return { rows, first: async <T>(query: Sql): Promise<T | undefined> => (await rows<T>(query))[0] };
}

function pooledQueries(pool: Pool): PooledQueries {
  const queries = queriesOn((work) => pool.lease(work));
  return { ...queries, begin: (work) => pool.lease((connection) => inTransaction(pool, connection, work)) };
}

async function inTransaction<T>(pool: Pool, connection: Connection, work: (tx: Transaction) => Promise<T>): Promise<T> {
  await connection.exec('begin');
  const { tx, failure } = transaction(pool, connection);
  let result: T;
  try {
    result = await work(tx);
  } catch (error) {
    await rollback(connection);
    throw error;
  }
  const failed = failure();
  if (failed !== undefined) {
    await rollback(connection);
    throw failed;
  }
  pool.extendDeadline(connection);
  await connection.exec('commit');
  return result;
}

/** The queries of one transaction, and the first failure among them, after which Postgres only rolls back. */
function transaction(pool: Pool, connection: Connection): { tx: Transaction; failure: () => unknown } {
  let failed: unknown;
  const step: Run = async (work) => {
    pool.extendDeadline(connection);
    try {
      return await work(connection);
    } catch (error) {
      failed ??= error;
      throw error;
    } finally {
      pool.extendDeadline(connection);
    }
  };
  const exec = async (text: string): Promise<void> => void (await step(() => connection.exec(text)));
  return { tx: { transaction: true, ...queriesOn(step), exec }, failure: () => failed };
}

/** Closes a connection that cannot roll back, which makes the server roll back. */
async function rollback(connection: Connection): Promise<void> {
  if (connection.broken) return;
  try {
    await connection.exec('rollback');
  } catch (error) {
    connection.fail(unavailable('a transaction could not be rolled back', error));
  }
}

let cursors = 0;

/**
 * Uses a cursor `with hold`: Postgres materialises the result, so no transaction stays open while the reader is
 * slow. An open one would hold back vacuum and, on the embedded database, block every other connection.
 */
async function* streamRows<T>(pool: Pool, query: Sql, batchRows: number): AsyncGenerator<T[]> {
  const { text, parameters } = compile(query);
  bindValues(parameters);
  const cursor = `rows_${++cursors}`;
  const lease = await openLease(pool);
  try {
    await lease.connection.run(`declare ${cursor} no scroll cursor with hold for ${text}`, parameters, false);
    for (;;) {
      pool.extendDeadline(lease.connection);
      const batch = await lease.connection.run(`fetch forward ${Math.trunc(batchRows)} from ${cursor}`, [], false);
      if (batch.length > 0) yield batch as unknown as T[];
      if (batch.length < batchRows) return;
    }
  } finally {
    await closeCursor(lease.connection, cursor);
    await lease.end();
  }
}

/** Closes the cursor, or the connection when that fails. A failed `declare` left no cursor. */
async function closeCursor(connection: Connection, cursor: string): Promise<void> {
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
async function openLease(pool: Pool): Promise<{ connection: Connection; end: () => Promise<void> }> {
  const opened = Promise.withResolvers<Connection>();
  const finished = Promise.withResolvers<void>();
  const leased = pool.lease(async (connection) => {
    opened.resolve(connection);
    await finished.promise;
  });
  leased.catch(opened.reject);
  const connection = await opened.promise;
  const end = (): Promise<void> => {
    finished.resolve();
    return leased;
  };
  return { connection, end };
}
