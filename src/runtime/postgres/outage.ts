// Whether the database of a pool can be reached, as its attempts to connect show. Calls wait through the first two seconds of an outage.
// After that they are rejected at once, except when the next attempt is due. Times are epoch milliseconds.
// Contract: decisions#operations.
import { unavailable } from '../../errors.ts';
import type { Log } from '../log.ts';
import { callerError, isDenied } from './failures.ts';

const RETRY_MS = 250;
const TOLERANCE_MS = 2_000;

export class Outage {
  #since = 0;
  #retryAt = 0;
  #cause: unknown;

  constructor(
    private readonly pool: string,
    private readonly log: Log,
  ) {}

  /** Whether the last attempt to connect has failed. */
  get isOn(): boolean {
    return this.#since > 0;
  }

  /** Whether it is too early for the next attempt. */
  isTooEarly(now: number): boolean {
    return this.isOn && now < this.#retryAt;
  }

  /** Whether calls must be rejected instead of waiting for the next attempt. */
  isRejecting(now: number): boolean {
    return now - this.#since > TOLERANCE_MS && this.isTooEarly(now);
  }

  /** Notes a failed attempt; returns whether the waiting calls must be rejected. */
  failed(error: unknown): boolean {
    const now = Date.now();
    if (!this.isOn) {
      this.#since = now;
      this.log.warn('the database does not answer', { pool: this.pool, error });
    }
    this.#retryAt = now + RETRY_MS;
    this.#cause = error;
    return isDenied(error) || now - this.#since > TOLERANCE_MS;
  }

  /** Notes a successful attempt. */
  ended(): void {
    if (this.isOn) this.log.info('the database is available again', { pool: this.pool });
    this.#since = 0;
  }

  /** The error of a rejected call. */
  error(): unknown {
    if (isDenied(this.#cause)) return this.#cause;
    return unavailable('the database is not available', callerError(this.#cause));
  }
}
