// The connection that a stream reads from. While the stream's reader is slow, other calls may use it. The stream's cursor stays in the
// session of the connection, so the stream waits for this same connection when it continues. Times are milliseconds.
// Failures: 503 when the connection breaks, even while others use it.
// Contract: neighbours#fair-shares.
import { asPartOf, currentWork, detached } from '../work.ts';
import type { Batch, Connection } from './connection.ts';
import type { Lease } from './lease.ts';
import type { Pool } from './pool.ts';

/** When a call has waited this long for a connection, a stream that has held its own for as long lends it after a fetch. */
export const WAITED_LONG_MS = 1_000;

interface Held {
  lease: Lease;
  end: () => Promise<void>;
}

/** What the reader has taken of a fetch's rows since the fetch began. */
interface Reading {
  /** When the reader got its last rows; 0 while it waits for more. */
  since: number;
  readonly startedAt: number;
  bytes: number;
  readonly batches: AsyncGenerator<Batch>;
}

export class StreamPlace {
  readonly connection: Connection;
  #isLendable = false;
  readonly #work = currentWork();
  #held: Held | undefined;
  #lent: Promise<void> | undefined;
  #reading: Reading | undefined;
  #refusal: Error | undefined;
  #hasEnded = false;

  private constructor(
    private readonly pool: Pool,
    held: Held,
    private readonly close: (lease: Lease) => Promise<void>,
  ) {
    this.#held = held;
    this.connection = held.lease.connection;
  }

  /** `close` ends the stream's use of a connection that is not broken. */
  static async take(pool: Pool, close: (lease: Lease) => Promise<void>): Promise<StreamPlace> {
    return new StreamPlace(pool, await hold((call) => pool.lease(call)), close);
  }

  /** The stream's cursor outlives the lease. Operators' streams keep their connection: operators' calls take the first idle one. */
  allowLending(): void {
    this.#isLendable = !this.#work.isOperator;
  }

  /** The lease of the connection; waits while others use it. */
  async lease(): Promise<Lease> {
    await this.#lent;
    this.#held ??= await asPartOf(this.#work, () => hold((call) => this.pool.leaseAgain(this.connection, call)));
    return this.#held.lease;
  }

  /** The rows of a fetch, in batches of about this many bytes. */
  async *fetch(text: string, batchBytes: number): AsyncGenerator<Batch> {
    if (this.#isDue()) this.lend();
    const batches = (await this.lease()).batches(text, batchBytes);
    const reading: Reading = { since: 0, startedAt: performance.now(), bytes: 0, batches };
    this.#reading = reading;
    for await (const batch of batches) {
      reading.since = performance.now();
      reading.bytes += batch.bytes;
      yield batch;
      reading.since = 0;
      if (this.#refusal !== undefined) throw this.#refusal;
    }
    this.#reading = undefined;
  }

  /** Whether the stream has held the connection for long, and others have waited for it for long. */
  #isDue(): boolean {
    if (!this.#isLendable || this.#held === undefined) return false;
    const heldMs = performance.now() - this.#held.lease.startedAt;
    return (
      heldMs >= WAITED_LONG_MS && this.pool.waiting().some((call) => this.suits(call) && call.ms >= WAITED_LONG_MS)
    );
  }

  /** Whether the waiting call could use the connection. */
  suits({ only }: { only: Connection | undefined }): boolean {
    return only === undefined || only === this.connection;
  }

  /** How long ago the reader got rows without asking for more, while the connection could be lent; else 0. */
  idleMs(now: number): number {
    const since = this.#reading?.since ?? 0;
    return since > 0 && this.#held !== undefined && this.#isFree ? now - since : 0;
  }

  /**
   * How many bytes of a fetch the reader takes per second, while the connection cannot be lent because rows wait for the reader. Undefined
   * for operators, who go before tenants.
   */
  pace(now: number): number | undefined {
    const { since = 0, startedAt = 0, bytes = 0 } = this.#reading ?? {};
    const isWaiting = since > 0 && this.#held !== undefined && !this.#isFree && !this.#work.isOperator;
    return isWaiting && now - startedAt >= WAITED_LONG_MS ? (1_000 * bytes) / (now - startedAt) : undefined;
  }

  get #isFree(): boolean {
    return this.#isLendable && !this.connection.isBusy;
  }

  /** Lends the connection to the next call that waits. `lease` waits until that call has returned it. */
  lend(): void {
    this.#lent = this.#held?.end();
    this.#held = undefined;
  }

  /** Takes the connection from the stream, whose reader gets this error instead of further rows. */
  async cut(refusal: Error): Promise<void> {
    this.#refusal = refusal;
    await this.#reading?.batches.return(undefined);
    await this.end();
  }

  /** Gives the connection back for good. */
  async end(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#reading = undefined;
    await this.#lent;
    const held = this.#held;
    this.#held = undefined;
    if (this.connection.broken) await held?.end();
    else if (held !== undefined) await this.close(held.lease).finally(held.end);
    else await detached(() => this.pool.leaseAgain(this.connection, this.close)).catch(this.#onNotClosed);
  }

  readonly #onNotClosed = (error: unknown): void => {
    if (!this.connection.broken) this.connection.fail(error);
  };

  errorFor(error: unknown): unknown {
    return this.#held?.lease.errorFor(error) ?? error;
  }
}

/** Holds what `lend` lends until `end` is called. */
async function hold(lend: (call: (lease: Lease) => Promise<void>) => Promise<void>): Promise<Held> {
  const opened = Promise.withResolvers<Lease>();
  const finished = Promise.withResolvers<void>();
  const lent = lend(async (lease) => {
    opened.resolve(lease);
    await finished.promise;
  });
  lent.catch(opened.reject);
  const lease = await opened.promise;
  const end = (): Promise<void> => {
    finished.resolve();
    return lent;
  };
  return { lease, end };
}
