// A pool of connections: a bounded first-come, first-served queue with a deadline. Broken connections are
// replaced on demand. While the database is down, one connection attempt is made every 250 ms; calls wait
// through the first two seconds of an outage and are then rejected at once until an attempt succeeds.
// All times are milliseconds. Why not the driver's pool: see connection.ts.
import { setTimeout as delay } from 'node:timers/promises';
import { unavailable } from '../../errors.ts';
import type { Log } from '../log.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import { callerError, isDenied } from './failures.ts';

export interface PoolOptions extends ConnectionOptions {
  name: string;
  max: number;
  /** A call's deadline, including the wait for a connection; a running statement gets at least 900 ms. */
  timeoutMs: number;
  log: Log;
}

interface Waiter {
  resolve(connection: Connection): void;
  reject(error: unknown): void;
  expiresAt: number;
}

const MAX_WAITING = 4_000;
const RETRY_MS = 250;
const OUTAGE_TOLERANCE_MS = 2_000;
const TICK_MS = 100;
const MIN_RUN_MS = 900;
const MAX_PREPARED = 2_000;

export class Pool {
  #options: PoolOptions;
  #connections = new Set<Connection>();
  #idle: Connection[] = [];
  #waiting: Waiter[] = [];
  #opening = 0;
  #downSince = 0;
  #retryAt = 0;
  #downCause: unknown;
  #closed = false;
  #lastTickAt = 0;
  #clock: ReturnType<typeof setInterval> | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Lends a connection to `work`. Rejects with 503 when none becomes free in time. */
  async lease<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const calledAt = Date.now();
    const connection = this.#idle.pop() ?? (await this.#wait(calledAt));
    connection.deadlineAt = Math.max(calledAt + this.#options.timeoutMs, Date.now() + MIN_RUN_MS);
    try {
      return await work(connection);
    } finally {
      connection.deadlineAt = 0;
      this.#release(connection);
    }
  }

  /** Restarts the deadline, for each statement of a transaction. */
  extendDeadline(connection: Connection): void {
    connection.deadlineAt = Date.now() + this.#options.timeoutMs;
  }

  stats(): { size: number; inUse: number; waiting: number } {
    const size = this.#connections.size;
    return { size, inUse: size - this.#idle.length, waiting: this.#waiting.length };
  }

  /** Rejects new calls, waits up to `graceMs` for those in flight, then closes every connection. */
  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    this.#rejectWaiting(unavailable('the service is stopping'));
    const until = Date.now() + graceMs;
    while (this.#connections.size > this.#idle.length && Date.now() < until) await delay(10);
    clearInterval(this.#clock);
    for (const connection of [...this.#connections]) connection.fail(unavailable('the service is stopping'));
  }

  #wait(now: number): Promise<Connection> {
    if (this.#closed) throw unavailable('the service is stopping');
    if (this.#waiting.length >= MAX_WAITING) throw unavailable('too many calls are waiting for the database');
    if (this.#downSince && now - this.#downSince > OUTAGE_TOLERANCE_MS && now < this.#retryAt) throw this.#downError();
    const connection = new Promise<Connection>((resolve, reject) => {
      this.#waiting.push({ resolve, reject, expiresAt: now + this.#options.timeoutMs });
    });
    this.#grow(now);
    return connection;
  }

  #release(connection: Connection): void {
    if (connection.broken) return;
    if (connection.prepared >= MAX_PREPARED) this.#retire(connection);
    else if (this.#waiting.length > 0) this.#waiting.shift()?.resolve(connection);
    else this.#idle.push(connection);
  }

  #retire(connection: Connection): void {
    this.#connections.delete(connection);
    connection.end();
    this.#grow(Date.now());
  }

  /** Opens a connection for each waiting call; one at a time while the database is down. */
  #grow(now: number): void {
    while (!this.#closed && this.#waiting.length > this.#opening && this.#connections.size < this.#options.max) {
      if (this.#downSince && (now < this.#retryAt || this.#opening > 0)) return;
      void this.#open(now);
    }
  }

  async #open(now: number): Promise<void> {
    const connection = new Connection(this.#options, (broken) => this.#remove(broken));
    connection.deadlineAt = now + this.#options.connectTimeoutMs;
    this.#connections.add(connection);
    this.#opening++;
    this.#startClock(now);
    try {
      await connection.exec('select 1');
      this.#opening--;
      this.#onOpened(connection);
    } catch (error) {
      this.#opening--;
      connection.fail(error);
      this.#onOpenFailed(error);
    }
  }

  #onOpened(connection: Connection): void {
    if (this.#downSince) this.#options.log.info('the database is available again', { pool: this.#options.name });
    this.#downSince = 0;
    connection.deadlineAt = 0;
    this.#release(connection);
    this.#grow(Date.now());
  }

  #onOpenFailed(error: unknown): void {
    const now = Date.now();
    if (!this.#downSince) {
      this.#downSince = now;
      this.#options.log.warn('the database does not answer', { pool: this.#options.name, error });
    }
    this.#retryAt = now + RETRY_MS;
    this.#downCause = error;
    if (isDenied(error) || now - this.#downSince > OUTAGE_TOLERANCE_MS) this.#rejectWaiting(this.#downError());
  }

  #downError(): unknown {
    if (isDenied(this.#downCause)) return this.#downCause;
    return unavailable('the database is not available', callerError(this.#downCause));
  }

  #remove(connection: Connection): void {
    this.#connections.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#waiting.length > 0) this.#grow(Date.now());
  }

  #rejectWaiting(error: unknown): void {
    for (const waiter of this.#waiting.splice(0)) waiter.reject(error);
  }

  #startClock(now: number): void {
    if (this.#clock) return;
    this.#lastTickAt = now;
    this.#clock = setInterval(() => this.#tick(Date.now()), TICK_MS);
    this.#clock.unref?.();
  }

  /** Enforces deadlines. After a stall of the event loop, replies may be waiting unread: that tick is skipped. */
  #tick(now: number): void {
    const stalled = now - this.#lastTickAt > 10 * TICK_MS;
    this.#lastTickAt = now;
    if (stalled) return;
    for (const connection of [...this.#connections]) {
      if (connection.deadlineAt === 0 || connection.deadlineAt > now) continue;
      this.#options.log.warn('the database missed a deadline', { pool: this.#options.name });
      connection.fail(unavailable('the database took too long to answer'));
    }
    while (this.#waiting[0] && this.#waiting[0].expiresAt <= now) {
      this.#waiting.shift()?.reject(unavailable('no database connection became free in time'));
    }
    this.#grow(now);
  }
}
