// What a pool of connections is made with, what it keeps of a waiting call, and what it says of itself.
// Times are milliseconds.
// Contract: neighbours#fair-shares.
import type { Waiter } from '../concurrency.ts';
import type { LongWork } from '../fair-share.ts';
import type { Log } from '../log.ts';
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
  /** The part of the slots for long work that may be used now, from 0 to 1. */
  longAdmitted?(): number;
  /** The long work of all pools that have it. */
  longWork?: LongWork;
  /** Counts the time of statements that ran for a tenant. */
  onStatements(tenantId: string, ms: number): void;
  log: Log;
}

/** A call that waits for a connection. */
export interface PoolWaiter extends Waiter {
  /** The connection that suits it best. */
  readonly wish: Wish;
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
