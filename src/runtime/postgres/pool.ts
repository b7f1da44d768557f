// Lanes for many callers: first come, first served, in a bounded queue with a deadline. A lane that breaks is
// replaced when next needed. While the database is away one connection is tried every 250 ms; calls wait
// for up to two seconds of outage and are then refused at once, until a try succeeds. All times are milliseconds.
import { unavailable } from '../../errors.ts';
import type { Log } from '../log.ts';
import { callerError, isDenied } from './failures.ts';
import { Lane, type LaneOptions } from './lane.ts';

export interface PoolOptions extends LaneOptions {
  name: string;
  max: number;
  /** A call's deadline, waiting for a lane included; a running statement always gets at least 900 ms. */
  timeoutMs: number;
  log: Log;
}

interface Waiter {
  resolve(lane: Lane): void;
  reject(error: unknown): void;
  expiresAt: number;
}

const MAX_WAITING = 4_000;
const RETRY_MS = 250;
const PATIENCE_MS = 2_000;
const TICK_MS = 100;
const LEAST_RUN_MS = 900;
const MAX_PREPARED = 2_000;

export class Pool {
  #options: PoolOptions;
  #lanes = new Set<Lane>();
  #idle: Lane[] = [];
  #waiting: Waiter[] = [];
  #opening = 0;
  #awaySince = 0;
  #retryAt = 0;
  #awayCause: unknown;
  #closed = false;
  #tickedAt = 0;
  #clock: ReturnType<typeof setInterval> | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Leases a lane to `work` and takes it back. Rejects with 503 when none comes free in time. */
  async lease<T>(work: (lane: Lane) => Promise<T>): Promise<T> {
    const calledAt = Date.now();
    const lane = this.#idle.pop() ?? (await this.#wait(calledAt));
    lane.deadlineAt = Math.max(calledAt + this.#options.timeoutMs, Date.now() + LEAST_RUN_MS);
    try {
      return await work(lane);
    } finally {
      lane.deadlineAt = 0;
      this.#release(lane);
    }
  }

  /** Gives a lane's next statement a whole deadline of its own; for transactions. */
  renew(lane: Lane): void {
    lane.deadlineAt = Date.now() + this.#options.timeoutMs;
  }

  stats(): { size: number; inUse: number; waiting: number } {
    const size = this.#lanes.size;
    return { size, inUse: size - this.#idle.length, waiting: this.#waiting.length };
  }

  /** Refuses new calls, waits up to `graceMs` for those in flight, then closes every connection. */
  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    this.#rejectWaiting(unavailable('the service is stopping'));
    const until = Date.now() + graceMs;
    while (this.#lanes.size > this.#idle.length && Date.now() < until) await sleep(10);
    clearInterval(this.#clock);
    for (const lane of [...this.#lanes]) lane.fail(unavailable('the service is stopping'));
  }

  #wait(now: number): Promise<Lane> {
    if (this.#closed) throw unavailable('the service is stopping');
    if (this.#waiting.length >= MAX_WAITING) throw unavailable('too many calls wait for the database');
    if (this.#awaySince && now - this.#awaySince > PATIENCE_MS && now < this.#retryAt) throw this.#awayError();
    const lane = new Promise<Lane>((resolve, reject) => {
      this.#waiting.push({ resolve, reject, expiresAt: now + this.#options.timeoutMs });
    });
    this.#grow(now);
    return lane;
  }

  #release(lane: Lane): void {
    if (lane.broken) return;
    if (lane.prepared >= MAX_PREPARED) this.#retire(lane);
    else {
      const next = this.#waiting.shift();
      if (next) next.resolve(lane);
      else this.#idle.push(lane);
    }
  }

  #retire(lane: Lane): void {
    this.#lanes.delete(lane);
    lane.end();
    this.#grow(Date.now());
  }

  /** Opens as many lanes as calls wait for; one at a time while the database is away. */
  #grow(now: number): void {
    while (!this.#closed && this.#waiting.length > this.#opening && this.#lanes.size < this.#options.max) {
      if (this.#awaySince && (now < this.#retryAt || this.#opening > 0)) return;
      void this.#open(now);
    }
  }

  async #open(now: number): Promise<void> {
    const lane = new Lane(this.#options, (broken) => this.#forget(broken));
    lane.deadlineAt = now + this.#options.connectTimeoutMs;
    this.#lanes.add(lane);
    this.#opening++;
    this.#startClock(now);
    try {
      await lane.exec('select 1');
      this.#opening--;
      this.#opened(lane);
    } catch (error) {
      this.#opening--;
      lane.fail(error);
      this.#refused(error);
    }
  }

  #opened(lane: Lane): void {
    if (this.#awaySince) this.#options.log.info('the database is back', { pool: this.#options.name });
    this.#awaySince = 0;
    lane.deadlineAt = 0;
    this.#release(lane);
    this.#grow(Date.now());
  }

  #refused(error: unknown): void {
    const now = Date.now();
    if (!this.#awaySince) {
      this.#awaySince = now;
      this.#options.log.warn('the database does not answer', { pool: this.#options.name, error });
    }
    this.#retryAt = now + RETRY_MS;
    this.#awayCause = error;
    if (isDenied(error) || now - this.#awaySince > PATIENCE_MS) this.#rejectWaiting(this.#awayError());
  }

  #awayError(): unknown {
    if (isDenied(this.#awayCause)) return this.#awayCause;
    return unavailable('the database is not available', callerError(this.#awayCause));
  }

  #forget(lane: Lane): void {
    this.#lanes.delete(lane);
    const at = this.#idle.indexOf(lane);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#waiting.length > 0) this.#grow(Date.now());
  }

  #rejectWaiting(error: unknown): void {
    for (const waiter of this.#waiting.splice(0)) waiter.reject(error);
  }

  #startClock(now: number): void {
    if (this.#clock) return;
    this.#tickedAt = now;
    this.#clock = setInterval(() => this.#tick(Date.now()), TICK_MS);
    this.#clock.unref?.();
  }

  /** Enforces deadlines. After a stall of this process answers may be waiting unread, so one tick is let pass. */
  #tick(now: number): void {
    const stalled = now - this.#tickedAt > 10 * TICK_MS;
    this.#tickedAt = now;
    if (stalled) return;
    for (const lane of [...this.#lanes]) {
      if (lane.deadlineAt === 0 || lane.deadlineAt > now) continue;
      this.#options.log.warn('the database missed a deadline', { pool: this.#options.name });
      lane.fail(unavailable('the database took too long to answer'));
    }
    while (this.#waiting[0] && this.#waiting[0].expiresAt <= now) {
      this.#waiting.shift()?.reject(unavailable('the database has no connection free'));
    }
    this.#grow(now);
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
