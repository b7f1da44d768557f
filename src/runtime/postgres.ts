// The service's door to Postgres: a request pool with short deadlines, small pools for slow work and for streams,
// and transactions on the first two. No call hangs and none is retried: a call ends in its rows, in a Postgres
// error (code, constraint_name, column_name, detail), or in a 503 when the database is away or too slow. A write
// whose connection broke has an unknown outcome and is reported as failed. Times are milliseconds.
// Contract: decisions#answers.
import postgres from 'postgres';

import { unavailable } from '../errors.ts';
import { newId } from './ids.ts';
import type { Log } from './log.ts';
import type { Connection } from './postgres/connection.ts';
import { guardAgainstLateWrites } from './postgres/failures.ts';
import { Pool } from './postgres/pool.ts';
import { bindValues } from './postgres/values.ts';
import { compile, type Queries, type Sql, sql, type Tx } from './sql.ts';

/** A transaction that can also run a file of several statements. */
export interface Transaction extends Tx {
  exec(text: string): Promise<void>;
}

/** Queries and transactions on one pool. */
export interface PooledQueries extends Queries {
  /** Commits when `work` resolves; rolls back and rethrows when it rejects or when a query in it failed. */
  begin<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
}

export interface Database extends PooledQueries {
  /** What tells this process's connections from those of others. */
  readonly id: string;
  /** Whether the process with this id has a connection to the server at this moment. */
  isConnected(id: string): Promise<boolean>;
  /** For index builds, scans and exports: no statement_timeout, a deadline of ten minutes. */
  readonly slow: PooledQueries;
  /** Batches of at most `batchRows` rows in one snapshot and constant memory; released when the reader stops early. */
  stream<T>(query: Sql, batchRows: number): AsyncIterable<T[]>;
  /** Several statements without values, on the slow pool. */
  exec(text: string): Promise<void>;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
  /** Connections of the request pool: open, leased, and calls that wait for one. */
  stats(): { size: number; inUse: number; waiting: number };
  /** Waits for what is in flight, at most five seconds, then closes every connection. */
  close(): Promise<void>;
}

export interface DatabaseOptions {
  url: string;
  /** Connections for requests, and for slow work. */
  max?: number;
  slowMax?: number;
  /** Connections for streams: their readers set the pace, so nothing else may wait behind them. */
  streamMax?: number;
  queryTimeoutMs?: number;
  log: Log;
}

const CONNECT_TIMEOUT_MS = 3_000;
const SLOW_TIMEOUT_MS = 600_000;
const IDLE_IN_TRANSACTION_MS = 60_000;
const CLOSE_GRACE_MS = 5_000;

/** Opens the pools; connections are made when first needed. Throws only for an address that cannot be parsed. */
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
  const patient = {
    ...base,
    timeoutMs: SLOW_TIMEOUT_MS,
    session: { ...session, idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS, cursor_tuple_fraction: 1 },
  };
  const slow = new Pool({ ...patient, name: 'slow work', max: slowMax });
  const streamed = new Pool({ ...patient, name: 'streams', max: streamMax });
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

function pooledQueries(pool: Pool): PooledQueries {
  const rows = async <T>(query: Sql): Promise<T[]> => {
    const { text, parameters } = compile(query);
    bindValues(parameters);
    return pool.lease((connection) => connection.run(text, parameters)) as Promise<unknown> as Promise<T[]>;
  };
  return {
    rows,
    first: async <T>(query: Sql): Promise<T | undefined> => (await rows<T>(query))[0],
    begin: (work) => pool.lease((connection) => inTransaction(pool, connection, work)),
  };
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
  pool.renew(connection);
  await connection.exec('commit');
  return result;
}

/** The queries of one transaction, and the first failure among them: Postgres has then undone all of it. */
function transaction(pool: Pool, connection: Connection): { tx: Transaction; failure: () => unknown } {
  let failed: unknown;
  const step = async <R>(run: () => Promise<R>): Promise<R> => {
    pool.renew(connection);
    try {
      return await run();
    } catch (error) {
      failed ??= error;
      throw error;
    } finally {
      pool.renew(connection);
    }
  };
  const rows = async <T>(query: Sql): Promise<T[]> => {
    const { text, parameters } = compile(query);
    bindValues(parameters);
    return (await step(() => connection.run(text, parameters))) as unknown as T[];
  };
  const first = async <T>(query: Sql): Promise<T | undefined> => (await rows<T>(query))[0];
  const tx: Transaction = { transaction: true, rows, first, exec: (text) => step(() => connection.exec(text)) };
  return { tx, failure: () => failed };
}

/** A connection that cannot roll back is given up, and the server rolls back for it. */
async function rollback(connection: Connection): Promise<void> {
  if (connection.broken) return;
  try {
    await connection.exec('rollback');
  } catch (error) {
    connection.fail(unavailable('a transaction could not be rolled back', error));
  }
}

let streams = 0;

/**
 * A held cursor: Postgres keeps the result aside, so no transaction stays open while the reader is slow, neither in
 * the way of vacuum nor, on the embedded database, of everybody else.
 */
async function* streamRows<T>(pool: Pool, query: Sql, batchRows: number): AsyncGenerator<T[]> {
  const { text, parameters } = compile(query);
  bindValues(parameters);
  const cursor = `rows_${++streams}`;
  const lease = await openLease(pool);
  try {
    await lease.connection.run(`declare ${cursor} no scroll cursor with hold for ${text}`, parameters, false);
    for (;;) {
      pool.renew(lease.connection);
      const batch = await lease.connection.run(`fetch forward ${Math.trunc(batchRows)} from ${cursor}`, [], false);
      if (batch.length > 0) yield batch as unknown as T[];
      if (batch.length < batchRows) return;
    }
  } finally {
    await closeCursor(lease.connection, cursor);
    await lease.end();
  }
}

/** A statement that failed has left no cursor; a connection that cannot close one is given up. */
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

/** A lease that lasts until `end` is called, for a reader that decides itself when it is done. */
async function openLease(pool: Pool): Promise<{ connection: Connection; end: () => Promise<void> }> {
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const opened = Promise.withResolvers<Connection>();
  const leased = pool.lease(async (connection) => {
    opened.resolve(connection);
    await finished;
  });
  leased.catch(opened.reject);
  const connection = await opened.promise;
  const end = (): Promise<void> => {
    finish();
    return leased;
  };
  return { connection, end };
}
