// How open streams survive a database that is briefly away, or too slow once: a call that failed with 503 is tried again after a
// pause, and given up when it has failed five times in a row. Failures of other kinds are final.
// Times are milliseconds. Contract: decisions#changes-of-rights, feed#resume.
import { ServiceError } from '../errors.ts';

const PAUSES_MS = [500, 1_000, 2_000, 4_000];

export function isUnavailable(cause: unknown): boolean {
  return cause instanceof ServiceError && cause.ecode === 'SERVICE_UNAVAILABLE';
}

/** The pause after a failure that follows `failures` others; undefined when there is no further attempt. */
export function pauseAfter(cause: unknown, failures: number): number | undefined {
  return isUnavailable(cause) ? PAUSES_MS[failures] : undefined;
}
