// What a pool of connections is made with, what it keeps of a waiting call, and what it says of itself.
// Times are milliseconds.
// Contract: neighbours#fair-shares.
import type { Waiter } from '../concurrency.ts';
import type { Log } from '../log.ts';
import type { LongLimits } from '../long-work.ts';
import type { Work } from '../work.ts';
import type { Connection, ConnectionOptions } from './connection.ts';
import type { Wish } from './connections.ts';

export interface PoolOptions extends ConnectionOptions {
  name: string;
  /** Connections besides the one for operators' calls. A share has at most half of them. */
  max: number;
  /** A call's deadline, including the wait for a connection; a running statement gets at least 900 ms. */
  timeoutMs: number;
  /** Calls of one share that may wait. */
  shareWaitingMax: number;
  /** Cancels what runs on the connection with this server process; settles when that can hit no later statement. */
  cancel(pid: number): Promise<void>;
  /** The limits that hold in all pools together that have them. */
  long?: Required<Pick<LongLimits, 'admitted' | 'delayMs' | 'throttle' | 'work'>>;
  /** Counts the time of statements that ran for a tenant. */
  onStatements(tenantId: string, ms: number): void;
  log: Log;
}

/** The only statement of a call. */
export interface Statement {
  readonly text: string;
  /** Whether it may be stopped, to be run again later. */
  readonly mayYield: boolean;
}

/** A call that waits for a connection. */
export interface PoolWaiter extends Waiter {
  /** The connection that suits it best. */
  readonly wish: Wish;
  /** What it runs; undefined for several statements. */
  readonly statement: Statement | undefined;
  /** Set when it is the call's turn. */
  connection: Connection | undefined;
  resolve(connection: Connection): void;
}

/** Connections open, those in use, and calls waiting for one. */
export interface PoolStats {
  size: number;
  inUse: number;
  waiting: number;
}

const ignore = (): void => {};

export function newWaiter(work: Work, wish: Wish, statement: Statement | undefined, timeoutMs: number): PoolWaiter {
  const enteredAt = Date.now();
  const expiresAt = enteredAt + timeoutMs;
  return { work, wish, statement, enteredAt, expiresAt, connection: undefined, resolve: ignore, reject: ignore };
}
