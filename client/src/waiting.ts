// Waiting that can be cancelled: pauses, back-off with jitter, and deadlines. An aborted wait ends with the reason of its
// signal. A deadline that has passed sets `isOver`, so that it can be told from a caller who has cancelled.
// Times are milliseconds.

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
/** The longest wait that the service may ask for; a timer with more than 24 days would not wait at all. */
const LONGEST_WISH_MS = 3_600_000;

/** Resolves after the time; rejects with the signal's reason as soon as the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const cancel = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', cancel);
      resolve();
    }, ms);
    signal?.addEventListener('abort', cancel, { once: true });
  });
}

/**
 * The pause before another try, after `failures` in a row. It doubles each time, and half of it is random, so that the clients
 * of a restarted service do not all come at once. It is at least the time that the service asks for, up to an hour.
 */
export function backOffMs(failures: number, retryAfterMs: number | null = null): number {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 16));
  const jittered = longest * (0.5 + Math.random() / 2);
  return retryAfterMs === null ? jittered : Math.min(retryAfterMs, LONGEST_WISH_MS) + jittered / 4;
}

/** A signal that is aborted with the given signal, or by its deadline. */
export class Deadline {
  readonly #own = new AbortController();
  readonly signal: AbortSignal;
  #timer: ReturnType<typeof setTimeout> | undefined;
  isOver = false;

  constructor(given: AbortSignal | undefined) {
    this.signal = given === undefined ? this.#own.signal : AbortSignal.any([given, this.#own.signal]);
  }

  /** Restarts the deadline; 0 means never. */
  set(ms: number): void {
    clearTimeout(this.#timer);
    if (ms > 0) this.#timer = setTimeout(() => this.#expire(), ms);
  }

  clear(): void {
    clearTimeout(this.#timer);
  }

  /** Cancels everything that uses the signal. */
  abort(): void {
    clearTimeout(this.#timer);
    this.#own.abort();
  }

  #expire(): void {
    this.isOver = true;
    this.#own.abort();
  }
}
