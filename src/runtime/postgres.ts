// Access to Postgres: a pool for requests with short deadlines, small pools for slow work and for streams, and transactions on the first
// two. Each pool serves the tenants fairly, and a client that disconnects has its statement cancelled. No call hangs or is retried: it ends
// with rows, a Postgres error (code, constraint_name, column_name, detail), or 503 when the database is unavailable or too slow. The
// outcome of a write whose connection broke is unknown; it is reported as failed. Times are milliseconds.
// Contract: decisions#responses, decisions#operations, neighbours#fair-shares.
import { LIMITS } from '../limits.ts';
import type { ByteBudget } from './byte-budget.ts';
import { newId } from './ids.ts';
import type { Log } from './log.ts';
import { LongWork } from './long-work.ts';
import { Congestion, probe } from './postgres/congestion.ts';
import type { RawRow } from './postgres/connection.ts';
import { guardAgainstLateWrites } from './postgres/failures.ts';
import type { Lease } from './postgres/lease.ts';
import { runUntil } from './postgres/left-statements.ts';
import { LockRoom } from './postgres/lock-room.ts';
import { Pool } from './postgres/pool.ts';
import type { PoolStats } from './postgres/pool-options.ts';
import { repeatable } from './postgres/repeatable.ts';
import { Streams } from './postgres/streams.ts';
import { temporaryLimit } from './postgres/temporary-files.ts';
import { bindValues } from './postgres/values.ts';
import { compile, type Queries, type Sql, sql, type Tx } from './sql.ts';
import type { StatementObserver } from './statement-spans.ts';
import { Throttle } from './throttle.ts';
import { detached } from './work.ts';

export type { RawRow } from './postgres/connection.ts';

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

export type PoolName = 'requests' | 'slow' | 'streams';

export interface Database extends PooledQueries {
  /** Identifies this process's connections on the server. */
  readonly id: string;
  /** The ids of the processes that are connected to the server. */
  connectedIds(): Promise<string[]>;
  /** For index builds, scans and exports: no statement_timeout, ten minutes per call. */
  readonly slow: PooledQueries;
  /**
   * Batches of at most `batchRows` rows, undecoded, and about a megabyte, from one snapshot, in constant memory. Ends when the reader
   * stops early.
   */
  stream(query: Sql, batchRows: number): AsyncIterable<RawRow[]>;
  /**
   * Runs a statement on the slow pool until it has ended, or until `mayBeLeft` says of its server process that nobody need
   * wait for it: the server then completes it and ends the session.
   */
  runUntil(query: Sql, mayBeLeft: (pid: number) => Promise<boolean>): Promise<void>;
  /** Several statements without values, outside a transaction, on the slow pool. */
  exec(text: string): Promise<void>;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
  /** A pool's open connections, its connections in use, and the calls that wait for one; by default, of the request pool. */
  stats(pool?: PoolName): PoolStats;
  /** Waits for calls in flight, up to five seconds by default, then closes every connection. */
  close(graceMs?: number): Promise<void>;
}

export interface DatabaseOptions {
  url: string;
  /** Connections for requests, and for slow work. */
  max?: number;
  slowMax?: number;
  /** Connections for streams, each held until its reader finishes. */
  streamMax?: number;
  queryTimeoutMs?: number;
  /** How long a whole transaction of the request pool may take. */
  transactionTimeoutMs?: number;
  /** Megabytes of temporary files that a statement may use; a stream that needs more keeps a transaction open instead. */
  temporaryMb?: number;
  /** Whether it is the embedded database: its connections share one session, so few are useful and no statement can be cancelled. */
  isEmbedded?: boolean;
  /** Counts the time of statements that ran for a tenant. */
  onStatements?(tenantId: string, ms: number): void;
  log: Log;
  /** Called when a statement with bound values has ended, in the work that ran it. */
  onStatement?: StatementObserver;
}

const CONNECT_TIMEOUT_MS = 3_000;
const CANCEL_TIMEOUT_MS = 2_000;
const SLOW_TIMEOUT_MS = 600_000;
const IDLE_IN_TRANSACTION_MS = 60_000;
const CLOSE_GRACE_MS = 5_000;

/** The pool that cancels statements. */
const CONTROL = {
  name: 'control',
  max: 1,
  timeoutMs: CANCEL_TIMEOUT_MS,
  shareWaitingMax: 1_000,
  cancel: async () => {},
};

/** Connections of the pools; one share has at most half of a pool. */
const SIZES = { requests: 8, slow: 4, streams: 8 };
const EMBEDDED_SIZES = { requests: 4, slow: 2, streams: 4 };

/** Creates the pools; connections open on demand. Throws only for a malformed address. */
export function openDatabase(options: DatabaseOptions): Database {
  const { url, log, isEmbedded = false, queryTimeoutMs = 4_000, transactionTimeoutMs = 15_000 } = options;
  const sizes = isEmbedded ? EMBEDDED_SIZES : SIZES;
  const { max = sizes.requests, slowMax = sizes.slow, streamMax = sizes.streams, onStatements = () => {} } = options;
  guardAgainstLateWrites(log);
  const id = newId();
  const base = {
    url,
    log,
    session: sessionOf(id),
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    hasProcess: !isEmbedded,
    onStatements,
    onStatement: options.onStatement,
    limitTemporary: temporaryLimit(log, options.temporaryMb),
    locks: new LockRoom(LIMITS.locks.calls),
  };
  const control = new Pool({ ...base, ...CONTROL });
  const congestion = new Congestion();
  const long = limitsOf(congestion, max);
  const cancel = isEmbedded ? async () => {} : (pid: number) => cancelStatement(control, pid, log);
  const fast = new Pool({
    ...base,
    name: 'requests',
    max,
    timeoutMs: queryTimeoutMs,
    shareWaitingMax: 2_000,
    cancel,
    long,
    session: {
      ...base.session,
      statement_timeout: Math.max(1, queryTimeoutMs - 250),
      idle_in_transaction_session_timeout: queryTimeoutMs,
    },
  });
  const slowOptions = {
    ...base,
    timeoutMs: SLOW_TIMEOUT_MS,
    shareWaitingMax: 200,
    cancel,
    session: { ...base.session, idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS, cursor_tuple_fraction: 1 },
  };
  const slow = new Pool({ ...slowOptions, long, name: 'slow work', max: slowMax });
  const locks = new LockRoom(LIMITS.locks.exports);
  const streams = new Streams(new Pool({ ...slowOptions, locks, name: 'streams', max: streamMax }));
  const stopProbing = isEmbedded ? () => {} : probe(control, congestion, [fast, slow]);
  const pools = { requests: fast, slow, streams: streams.pool };
  const requests = pooledQueries(fast, transactionTimeoutMs);
  return {
    ...requests,
    id,
    connectedIds: () => connectedIds(requests),
    slow: pooledQueries(slow, SLOW_TIMEOUT_MS),
    stream: (query, batchRows) => streams.rows(query, batchRows),
    runUntil: (query, mayBeLeft) => runUntil(slow, query, mayBeLeft),
    exec: (text) => slow.lease((lease) => lease.exec(text)),
    ping: async () => void (await requests.rows(sql`select 1`)),
    stats: (pool = 'requests') => pools[pool].stats(),
    close: async (graceMs = CLOSE_GRACE_MS) => {
      stopProbing();
      await Promise.all([fast, slow, streams.pool].map((pool) => pool.close(graceMs)));
      await control.close(graceMs);
    },
  };
}

/** The limits that hold across all pools whose statements may run long. */
function limitsOf(congestion: Congestion, max: number) {
  return {
    admitted: (): number => congestion.admitted,
    delayMs: (): number => congestion.delayMs,
    throttle: new Throttle(() => congestion.admitted),
    work: new LongWork(Math.max(1, max >> 2), max - (max >> 2)),
  };
}

/**
 * No parallel workers: a statement with them takes the processors of three statements, but counts as one. The workers also have to
 * start first: an index of 10,000 records takes 38 ms with workers, and 13 without. The zeros are strings because the driver drops a 0.
 * No JIT: compiling a statement of many terms takes seconds, even for one record, and saves little, since most of the cost is finding
 * values in their JSON.
 */
function sessionOf(id: string) {
  return {
    timezone: 'UTC',
    application_name: applicationName(id),
    max_parallel_workers_per_gather: '0',
    max_parallel_maintenance_workers: '0',
    jit: 'off',
  };
}

/** Resolves when the signal has been sent: the server ignores one that arrives between two statements. */
async function cancelStatement(control: Pool, pid: number, log: Log): Promise<void> {
  try {
    await detached(() =>
      control.lease(async (lease) => {
        // Connections that share one session have the same process.
        if (lease.connection.pid !== pid) await lease.run('select pg_cancel_backend($1::int)', [pid]);
      }),
    );
  } catch (error) {
    log.warn('a statement that no client waits for could not be cancelled', { error });
  }
}

function applicationName(id: string): string {
  return `tenant-data-service ${id}`;
}

async function connectedIds(queries: Queries): Promise<string[]> {
  const rows = await queries.rows<{ id: string }>(sql`
    select distinct right(application_name, 36) as id from pg_stat_activity
    where application_name like ${applicationName('%')}`);
  return rows.map(({ id }) => id);
}

type Run = (work: (lease: Lease) => Promise<unknown>, text: string) => Promise<unknown>;

/** Queries on the lease that `run` provides. */
function queriesOn(run: Run): Queries {
  const rows = async <T>(query: Sql, budget?: ByteBudget): Promise<T[]> => {
    const { text, parameters } = compile(query);
    bindValues(parameters);
    return run((lease) => lease.run(text, parameters, { budget, plans: query.plans }), text) as Promise<T[]>;
  };
  return { rows, first: async <T>(query: Sql): Promise<T | undefined> => (await rows<T>(query))[0] };
}

function pooledQueries(pool: Pool, transactionTimeoutMs: number): PooledQueries {
  return {
    ...repeatable(
      queriesOn((work, text) => pool.lease(work, { text, mayYield: true })),
      queriesOn((work, text) => pool.lease(work, { text, mayYield: false })),
    ),
    begin: (work) =>
      pool.lease((lease) => {
        lease.limitTransaction(transactionTimeoutMs);
        return inTransaction(lease, work);
      }),
  };
}

async function inTransaction<T>(lease: Lease, work: (tx: Transaction) => Promise<T>): Promise<T> {
  await lease.begin();
  const { tx, failure } = transaction(lease);
  try {
    const result = await work(tx);
    const failed = failure();
    if (failed !== undefined) throw failed;
    await lease.commit();
    return result;
  } catch (error) {
    await lease.rollback();
    throw error;
  }
}

/** The queries of one transaction, and the first failure among them, after which Postgres only rolls back. */
function transaction(lease: Lease): { tx: Transaction; failure: () => unknown } {
  let failed: unknown;
  const step: Run = async (work) => {
    lease.extendDeadline();
    try {
      return await work(lease);
    } catch (error) {
      failed ??= error;
      throw error;
    } finally {
      lease.extendDeadline();
    }
  };
  const exec = async (text: string): Promise<void> => void (await step(() => lease.exec(text), text));
  return { tx: { transaction: true, ...queriesOn(step), exec }, failure: () => failed };
}
