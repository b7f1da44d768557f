// What a failed query means. "The database is away" and "it took too long" become 503 for the caller;
// every other Postgres error passes through as it is (code, constraint_name, column_name, detail).
// Also the guard for the driver's one known way of throwing outside of any call.
import process from 'node:process';
import postgres from 'postgres';

import { ServiceError, unavailable } from '../../errors.ts';
import type { Log } from '../log.ts';

const CONNECTION_CODE = /^(CONNECTION_|CONNECT_TIMEOUT|E[A-Z]{3,}$)/;
const AWAY_STATE = /^(08|53|57P0|25P03)/;
const CANCELLED = '57014';
const DENIED_STATE = /^(28|3D)/;

/** Whether the connection is of no further use after this error. */
export function endsConnection(error: unknown): boolean {
  if (!(error instanceof postgres.PostgresError)) return true;
  return error.severity === 'FATAL' || error.severity === 'PANIC' || error.code.startsWith('08');
}

/** Whether Postgres answers but refuses this user or database, which waiting does not cure. */
export function isDenied(error: unknown): boolean {
  return error instanceof postgres.PostgresError && DENIED_STATE.test(error.code);
}

/** Whether Postgres undid this because it and others waited for each other. Nothing of it was done. */
export function isDeadlock(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '40P01';
}

/** The error a caller gets: 503 when the database is away or too slow, else the error itself. */
export function callerError(error: unknown): unknown {
  if (error instanceof ServiceError) return error;
  if (error instanceof postgres.PostgresError) {
    if (error.code === CANCELLED) return unavailable('the database took too long to answer', error);
    return AWAY_STATE.test(error.code) ? unavailable('the database is not available', error) : error;
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return CONNECTION_CODE.test(code) ? unavailable('the connection to the database was lost', error) : error;
}

let guarded = false;

/**
 * Keeps the process alive when the driver writes to a socket that has just closed; the query itself is
 * settled by its connection. Anything else uncaught ends the process with code 1, as it would without the guard.
 */
export function guardAgainstLateWrites(log: Log): void {
  if (guarded) return;
  guarded = true;
  process.on('uncaughtException', (error: unknown) => {
    if (isLateWrite(error)) return log.warn('the database driver wrote to a closed connection', { error });
    if (process.listenerCount('uncaughtException') > 1) return;
    log.error('uncaught exception', { error });
    process.exit(1);
  });
}

function isLateWrite(error: unknown): boolean {
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  return stack.includes('nextWrite') && /postgres[\\/](src|cjs[\\/]src)[\\/]connection\.js/.test(stack);
}
