// One connection to Postgres with at most one query in flight. It connects once: when the socket breaks or a deadline passes, the
// query in flight is rejected, the socket destroyed and the connection stays `broken`, so a transaction cannot continue on another
// session. Deadlines are epoch milliseconds in `deadlineAt` (0: none), enforced by the pool. This class and the pool replace the
// driver's own pool because of https://github.com/porsager/postgres/issues/1195 and /1199; remove both when these are fixed. Rows are
// collected here: after a statement that fails among its rows, the driver's list of the next one begins with holes (/1181).
import type { Buffer } from 'node:buffer';
import { createConnection, type Socket } from 'node:net';
import postgres from 'postgres';

import type { ByteBudget } from '../byte-budget.ts';
import type { Plans } from '../sql.ts';
import type { StatementObserver } from '../statement-spans.ts';
import { currentWork } from '../work.ts';
import { callerError, connectionLost, endsConnection } from './failures.ts';
import { PacedReads } from './paced-reads.ts';
import { ServerCache } from './server-cache.ts';
import type { temporaryLimit } from './temporary-files.ts';
import { WIRE_TYPES } from './values.ts';

export interface ConnectionOptions {
  url: string;
  connectTimeoutMs: number;
  /** Whether each connection has a server process of its own. */
  hasProcess: boolean;
  /** Limits the temporary files that the session's statements may take at a time. */
  limitTemporary: ReturnType<typeof temporaryLimit>;
  /** Run-time parameters of the session: statement_timeout and the like. */
  session: Record<string, string | number>;
  /** Called when a statement with bound values has ended, in the work that ran it. */
  onStatement?: StatementObserver | undefined;
}

type Rows = postgres.Row[];
type Running = Promise<unknown> & { reject(error: unknown): void; prepare?: boolean; prepared?: boolean };
export interface RunOptions {
  /** The budget of the bytes received. */
  budget?: ByteBudget | undefined;
  /** How the statement is planned; `by values` by default. */
  plans?: Plans;
}

/** A row's columns as the server sends them, in its text format; null for SQL NULL. */
export type RawRow = readonly (Buffer | null)[];
/** Rows, and the bytes received for them. */
export interface Batch {
  rows: RawRow[];
  bytes: number;
}

/** A longer statement has many terms and hardly ever comes again; keeping thousands of them prepared took gigabytes. */
const KEPT_TEXT_MAX = 8_192;

/**
 * Large values are compressed with lz4 where the server has it: storing a text of 330 KB takes 3 to 5 ms of a processor instead
 * of 12 to 25, and at most a tenth more space.
 */
const OPENING = `select pg_backend_pid() as pid, (select set_config(name, 'lz4', false)
  from pg_settings where name = 'default_toast_compression' and 'lz4' = any(enumvals))`;

type Target = { path?: string | false; host: string[]; port: number[] };

/** A plan made once must also suit any limit, and the table when it has grown: so sequential scans and sorts are off. */
const PLAN_ONCE = planning('force_generic_plan', 'off');
const PLAN_BY_VALUES = planning('default', 'default');

function planning(mode: string, others: string): string {
  return `set plan_cache_mode to ${mode}; set enable_seqscan to ${others}; set enable_sort to ${others}`;
}

export class Connection {
  broken = false;
  deadlineAt = 0;
  readonly serverCache: ServerCache;
  /** Time that statements have taken so far, in milliseconds. */
  busyMs = 0;
  /** The server process. */
  pid = 0;
  /** Open cursors of streams, which end with the connection. */
  cursors = 0;
  /** Since when it is lent, by `performance.now()`; 0 while it is idle. */
  lentAt = 0;
  #current: Running | undefined;
  /** For the query in flight: called with the number of bytes that arrive, before they are parsed. */
  #onReceived: ((bytes: number) => void) | undefined;
  #socket: Socket | undefined;
  #reads: PacedReads | undefined;
  #sql: postgres.Sql;
  #onBroken: (connection: Connection) => void;
  readonly #onStatement: StatementObserver | undefined;
  /** Whether the session plans once; null when others share the session, so that it stays as it is. */
  #plansOnce: boolean | null;
  readonly #limitTemporary: ConnectionOptions['limitTemporary'] | undefined;

  constructor(options: ConnectionOptions, onBroken: (connection: Connection) => void) {
    this.#onBroken = onBroken;
    this.#onStatement = options.onStatement;
    this.serverCache = new ServerCache(options);
    this.#plansOnce = options.hasProcess ? false : null;
    this.#limitTemporary = options.hasProcess ? options.limitTemporary : undefined;
    const given = {
      max: 1,
      fetch_types: false,
      prepare: true,
      idle_timeout: null,
      max_lifetime: null,
      connect_timeout: options.connectTimeoutMs / 1000,
      connection: options.session,
      types: WIRE_TYPES,
      onnotice() {},
      socket: (target: Target) => this.#connect(target),
    };
    this.#sql = postgres(options.url, given as unknown as postgres.Options<Record<string, never>>);
  }

  /** Whether a statement is running. */
  get isBusy(): boolean {
    return this.#current !== undefined;
  }

  /** Connects. Rejects when the server cannot be reached or refuses. */
  async open(): Promise<void> {
    const [row] = await this.run(OPENING, [], { plans: 'each time' });
    this.pid = (row as { pid: number } | undefined)?.pid ?? 0;
    const run = (text: string, parameters: unknown[]) => this.run(text, parameters, { plans: 'each time' });
    await this.#limitTemporary?.(run);
  }

  /** Sets how the next statements are planned, outside a transaction. Sent together with the next statement. */
  setPlans(plans: Plans): void {
    const isOnce = plans === 'once';
    if (this.#plansOnce === null || this.#plansOnce === isOnce || this.broken) return;
    this.#plansOnce = isOnce;
    // If this fails, the planning mode of the session is unknown, and it is not used again.
    this.#sql.unsafe(isOnce ? PLAN_ONCE : PLAN_BY_VALUES).catch((error: unknown) => this.fail(callerError(error)));
  }

  /**
   * Runs one statement with bound values. Concurrent calls run one after another. A statement that receives more than
   * its budget is rejected with the budget's refusal, and closes the connection: that costs less than receiving the rest.
   */
  async run(text: string, parameters: unknown[], { budget, plans }: RunOptions = {}): Promise<Rows> {
    while (this.#current) await Promise.allSettled([this.#current]);
    const isKept = plans !== 'each time' && text.length <= KEPT_TEXT_MAX;
    const options = { prepare: isKept, simple: false } as postgres.UnsafeQueryOptions;
    if (budget !== undefined) this.#onReceived = (bytes) => this.#spend(budget, bytes);
    const rows: Rows = [];
    const start = () => this.#sql.unsafe(text, parameters as never[], options).forEach((row) => void rows.push(row));
    const running = this.#await(start, text).then(() => rows);
    return this.#onStatement === undefined ? running : this.#observed(this.#onStatement, text, running);
  }

  /**
   * The rows of a statement without values, undecoded, in batches of about `batchBytes` received bytes. Until a batch is taken, the
   * socket is not read (backpressure): the server waits, and few rows are in memory, however large they are. When the reader
   * ends early, the remaining rows are received and dropped.
   */
  async *batches(text: string, batchBytes: number): AsyncGenerator<Batch> {
    while (this.#current) await Promise.allSettled([this.#current]);
    let batch: Batch = { rows: [], bytes: 0 };
    let full = Promise.withResolvers<false>();
    const query = this.#sql.unsafe(text, [], { prepare: false, simple: false } as postgres.UnsafeQueryOptions);
    let hasLeft = false;
    this.#onReceived = (bytes) => {
      batch.bytes += bytes;
      if (batch.bytes < batchBytes || hasLeft) return;
      this.#reads?.pause();
      full.resolve(false);
    };
    let isDone = false;
    const keep = (row: unknown): void => void (hasLeft || batch.rows.push(row as RawRow));
    const start = () => query.raw().forEach(keep);
    const done = this.#await(start).then(() => true);
    try {
      while (!isDone) {
        isDone = await Promise.race([done, full.promise]);
        const taken = batch;
        batch = { rows: [], bytes: 0 };
        full = Promise.withResolvers();
        if (taken.rows.length > 0) yield taken;
        if (!isDone) this.#reads?.resume();
      }
    } finally {
      hasLeft = true;
      // The last bytes may have filled a batch too.
      this.#reads?.resume();
      await done.catch(() => undefined);
    }
  }

  /** Runs several statements without values in one round trip. */
  async exec(text: string): Promise<void> {
    while (this.#current) await Promise.allSettled([this.#current]);
    await this.#await(() => this.#sql.unsafe(text));
  }

  /** Rejects the query in flight with `error` and closes the connection. */
  fail(error: unknown): void {
    if (this.broken) return;
    this.broken = true;
    this.#current?.reject(error);
    this.end();
    this.#onBroken(this);
  }

  /** Closes the connection; a query in flight is rejected. */
  end(): void {
    this.broken = true;
    this.deadlineAt = 0;
    const socket = this.#socket;
    // The driver sends Terminate first; the socket is destroyed even if the server does not react.
    this.#sql.end({ timeout: 0 }).then(
      () => socket?.destroySoon(),
      () => socket?.destroy(),
    );
    if (socket) setTimeout(() => socket.destroy(), 1_000).unref();
  }

  async #observed(observe: StatementObserver, text: string, running: Promise<Rows>): Promise<Rows> {
    const startedAt = performance.now();
    try {
      const rows = await running;
      observe(text, performance.now() - startedAt, undefined);
      return rows;
    } catch (error) {
      observe(text, performance.now() - startedAt, error);
      throw error;
    }
  }

  /** Starts a query, unless the connection is broken, and waits for its end. */
  async #await(start: () => unknown, text = ''): Promise<void> {
    if (this.broken) throw connectionLost();
    const running = start() as Running;
    const startedAt = performance.now();
    this.#current = running;
    if (this.#reads !== undefined) this.#reads.share = currentWork().share;
    try {
      await running;
    } catch (error) {
      if (endsConnection(error)) this.fail(error);
      throw callerError(error);
    } finally {
      // The server also keeps a prepared statement that failed.
      if (running.prepare && !running.prepared) this.serverCache.addStatement(text);
      this.#current = undefined;
      this.busyMs += performance.now() - startedAt;
      this.#onReceived = undefined;
    }
  }

  #spend(budget: ByteBudget, bytes: number): void {
    try {
      budget.take(bytes);
    } catch (refusal) {
      this.fail(refusal);
    }
  }

  async #connect(target: Target): Promise<Socket> {
    if (this.#socket) throw Object.assign(new Error('a connection connects only once'), { code: 'CONNECTION_CLOSED' });
    const socket = target.path
      ? createConnection({ path: target.path })
      : createConnection({ host: target.host[0] ?? 'localhost', port: target.port[0] ?? 5432 });
    this.#socket = socket;
    // The driver takes the TLS server name from this property.
    Object.assign(socket, { host: target.host[0] });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
      socket.once('close', () => reject(Object.assign(new Error('connection closed'), { code: 'CONNECTION_CLOSED' })));
    });
    socket.setNoDelay(true);
    this.#reads = new PacedReads(socket, (bytes) => this.#onReceived?.(bytes));
    socket.on('close', () => this.fail(connectionLost()));
    return socket;
  }
}
