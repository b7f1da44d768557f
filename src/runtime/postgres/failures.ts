// What a failed query means. An unavailable or too slow database becomes 503 for the caller; every other
// Postgres error passes through (code, constraint_name, column_name, detail). Also guards the process
// against an exception that the driver throws outside of any call.
import process from 'node:process';
import postgres from 'postgres';

import { ServiceError, unavailable } from '../../errors.ts';
import type { Log } from '../log.ts';

const CONNECTION_CODE = /^(CONNECTION_|CONNECT_TIMEOUT|E[A-Z]{3,}$)/;
const UNAVAILABLE_STATE = /^(08|53|57P0|25P03)/;
const CANCELLED = '57014';
const BEYOND_LIMIT = '53400';
const NO_PRIVILEGE = '42501';
const DENIED_STATE = /^(28|3D)/;

/** Whether the connection is unusable after this error. */
export function endsConnection(error: unknown): boolean {
  if (!(error instanceof postgres.PostgresError)) return true;
  return error.severity === 'FATAL' || error.severity === 'PANIC' || error.code.startsWith('08');
}

/** Whether Postgres rejects this user or database, which no retry changes. */
export function isDenied(error: unknown): boolean {
  return error instanceof postgres.PostgresError && DENIED_STATE.test(error.code);
}

/** Whether Postgres rolled the transaction back because of a deadlock. */
export function isDeadlock(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '40P01';
}

/** Whether a lock was not free within the time that the transaction waits for one. */
export function isLockTimeout(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '55P03';
}

/** Whether the database user may not do this. */
export function lacksPrivilege(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === NO_PRIVILEGE;
}

export function connectionLost(cause?: unknown): ServiceError {
  return unavailable('the connection to the database was lost', cause);
}

/** The error for the caller: 400 when it sorts or groups too much, 503 when the database is unavailable or too slow, else the error itself. */
export function callerError(error: unknown): unknown {
  if (error instanceof ServiceError) return error;
  if (error instanceof postgres.PostgresError) {
    if (error.code === CANCELLED) return unavailable('the database took too long to answer', error);
    if (error.code === BEYOND_LIMIT) return tooMuchSpace(error);
    return UNAVAILABLE_STATE.test(error.code) ? unavailable('the database is not available', error) : error;
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return CONNECTION_CODE.test(code) ? connectionLost(error) : error;
}

function tooMuchSpace(cause: unknown): ServiceError {
  const message = 'have too much text to be sorted or grouped by it; filter them, or use shorter fields';
  const details = [{ path: 'records', message }];
  return new ServiceError('VALIDATION_ERROR', `records: ${message}`, { details, cause });
}

/** Whether a statement needed more space on disk than it may take. */
export function isTooMuchSpace(error: unknown): boolean {
  return error instanceof ServiceError && (error.cause as { code?: unknown } | undefined)?.code === BEYOND_LIMIT;
}

let guarded = false;

/**
 * Keeps the process alive when the driver writes to a socket that has just closed; the connection rejects the
 * query itself. Any other uncaught exception ends the process with code 1, as it would without this handler.
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
