// Refuses a body that arrives too slowly: after the first 30 seconds it must have arrived at 1 KiB a second on average, so that
// a client cannot hold a connection, and the memory of the bytes it has sent, for ever. Time in which the reader takes nothing
// does not count, such as that of an import whose batches wait. Times are milliseconds.
// Failures: 408; the response closes the connection.
// Contract: neighbours#byte-budgets.
import { ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';

const { graceMs, bytesPerSecond } = LIMITS.body;
/** The time between two checks of a body that is late while its reader takes nothing. */
const CHECK_MS = 1_000;

/** How long a body may take until `bytes` of it have arrived. */
export function deadlineOf(bytes: number): number {
  return graceMs + (bytes / bytesPerSecond) * 1_000;
}

/** Resolves like `reading`. 408 after `ms`. */
export async function readWithin<T>(reading: Promise<T>, ms: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(tooSlow()), ms);
  try {
    return await Promise.race([reading, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The chunks of a body while it arrives fast enough, else 408. Yields to other requests between many small chunks. */
export async function* steady(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  const progress = new Progress(() => void reader.cancel().catch(() => undefined));
  let isDone = false;
  try {
    for (;;) {
      progress.startWaiting();
      const { done, value } = await reader.read();
      progress.received(value?.byteLength ?? 0);
      isDone = done;
      if (value === undefined) return;
      yield value;
      const turn = giveWay();
      if (turn !== undefined) await turn;
    }
  } finally {
    progress.end();
    // The rest is not read; the connection may already be closed.
    if (!isDone) void reader.cancel().catch(() => undefined);
  }
}

/** Watches a body with one timer, however many chunks it has. */
class Progress {
  #bytes = 0;
  #waitedMs = 0;
  #waitingSince: number | undefined;
  #isLate = false;
  #timer: ReturnType<typeof setTimeout>;

  /** `onLate` ends the wait for the next chunk. */
  constructor(private readonly onLate: () => void) {
    this.#timer = setTimeout(() => this.#check(), graceMs);
  }

  startWaiting(): void {
    this.#waitingSince = performance.now();
  }

  /** Called when a chunk or the end has arrived. Throws 408 when it is late. */
  received(bytes: number): void {
    this.#waitedMs = this.#waited();
    this.#waitingSince = undefined;
    this.#bytes += bytes;
    if (this.#isLate) throw tooSlow();
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #waited(): number {
    return this.#waitedMs + (this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince);
  }

  #check(): void {
    const leftMs = deadlineOf(this.#bytes) - this.#waited();
    if (leftMs > 0 || this.#waitingSince === undefined) {
      this.#timer = setTimeout(() => this.#check(), Math.max(CHECK_MS, leftMs));
      return;
    }
    this.#isLate = true;
    this.onLate();
  }
}

function tooSlow(): ServiceError {
  const message = `the request body arrives too slowly: send at least ${bytesPerSecond} bytes per second`;
  return new ServiceError('REQUEST_TIMEOUT', message, { headers: { connection: 'close' } });
}
