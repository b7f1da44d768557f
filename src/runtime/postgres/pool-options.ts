// The options of a pool of connections, what it stores for a waiting call, and the statistics that it reports.
// Times are milliseconds.
// Contract: neighbours#fair-shares.
import type { Waiter } from '../concurrency.ts';
import type { Log } from '../log.ts';
import type { LongLimits } from '../long-work.ts';
import type { Work } from '../work.ts';
import type { Connection, ConnectionOptions } from './connection.ts';
import type { Wish } from './connections.ts';
import type { LockHolder, LockRoom } from './lock-room.ts';

export interface PoolOptions extends ConnectionOptions {
  name: string;
  /** Connections, not counting the one for operators' calls. A share holds at most half of them. */
  max: number;
  /** A call's deadline, including the wait for a connection; a running statement gets at least 900 ms. */
  timeoutMs: number;
  /** How many calls of one share may wait. */
  shareWaitingMax: number;
  /** Cancels the statement of this server process; settles once the cancellation can no longer hit a later statement. */
  cancel(pid: number): Promise<void>;
  /** Limits that several pools share, and that hold for all of them together. */
  long?: Required<Pick<LongLimits, 'admitted' | 'delayMs' | 'throttle' | 'work'>>;
  /** For calls that take many locks; pools may share it. */
  locks: LockRoom;
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
export interface PoolWaiter extends Waiter, LockHolder {
  /** The connection that suits it best. */
  readonly wish: Wish;
  /** The statement that it runs; undefined for several statements. */
  readonly statement: Statement | undefined;
  /** Set when it is the call's turn. */
  connection: Connection | undefined;
  resolve(connection: Connection): void;
}

/** Open connections, connections in use, and calls that wait for one. */
export interface PoolStats {
  size: number;
  inUse: number;
  waiting: number;
}

const ignore = (): void => {};

export function newWaiter(work: Work, wish: Wish, statement: Statement | undefined, timeoutMs: number): PoolWaiter {
  const enteredAt = Date.now();
  const expiresAt = enteredAt + timeoutMs;
  const { locks } = work;
  return { work, wish, statement, locks, enteredAt, expiresAt, connection: undefined, resolve: ignore, reject: ignore };
}

/** Resolves when the call has a connection. */
export function turnOf(waiter: PoolWaiter): Promise<Connection> {
  return new Promise((resolve, reject) => Object.assign(waiter, { resolve, reject }));
}
