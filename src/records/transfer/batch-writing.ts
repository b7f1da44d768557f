// Writes the batches of an import, or of another upload of that size, one after the other. While one batch is written, the next
// one is read and, if its writer can, prepared: preparing takes the process about as long as Postgres then needs for the
// statement, so imports are 1.6 times as fast with two processors. Batches of 1,000 lines instead of 500 were no faster. A
// batch may take several megabytes and a tenant may upload many files at once, so the batches of a process wait for a slot, by
// tenant.
// Failures: a batch that fails is reported when the next one begins, and at the end; no later one is written.
// Contract: decisions#import, portability#import.
import { type App, perApp } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { Semaphore } from '../../runtime/concurrency.ts';
import { currentWork } from '../../runtime/work.ts';
import { LostRace } from '../batch/items.ts';
import type { Turn } from '../write/context.ts';

const { batchesWriting: slots, batchesWaiting: shareWaitingMax } = LIMITS.transfer;

/** Slots for the batches of a process, and for other work of that size. */
export const importWriters = perApp(() => new Semaphore({ name: 'imports', slots, shareWaitingMax, limitsLong: true }));

/** The batch was not written; `cause` is the error of the batch before it. */
export class NotWritten extends Error {
  constructor(cause: unknown) {
    super('a batch is not written', { cause });
  }
}

/** The batch must be prepared again: the batch before it was, so this one's records would otherwise have earlier ids. */
export class PreparedTooEarly extends LostRace {}

class WrittenBatch {
  /** Resolves when this batch and all earlier ones have been written or have failed. */
  ended: Promise<void> = Promise.resolve();
  hasFailed = false;
  /** Resolves when a statement of the batch may run. */
  readonly begun = Promise.withResolvers<void>();
  /** How often its rows have been prepared. */
  timesPrepared = 0;
  isLate = false;
}

export class BatchWriting {
  #last: WrittenBatch | null = null;
  #failure: { error: unknown } | null = null;

  constructor(private readonly app: App) {}

  /** Starts writing a batch when the previous one is written. Rejects if that one failed. */
  async start(write: () => Promise<void>): Promise<void> {
    await this.written();
    await this.#start(new WrittenBatch(), write);
  }

  /** Starts preparing a batch when the previous one has been prepared. Rejects if an earlier one failed. */
  async startAhead(write: (turn: Turn) => Promise<void>): Promise<void> {
    const before = this.#last;
    await before?.begun.promise;
    this.#throwFailure();
    const batch = new WrittenBatch();
    const turn = async (isPrepared: boolean): Promise<void> => {
      await before?.ended;
      if (before?.hasFailed === true) throw new NotWritten(this.#failure?.error);
      if (isPrepared && (before?.timesPrepared ?? 0) > 1 && !batch.isLate) {
        batch.isLate = true;
        throw new PreparedTooEarly();
      }
      if (isPrepared) batch.timesPrepared += 1;
      batch.begun.resolve();
    };
    await this.#start(batch, () => write(turn));
  }

  async #start(batch: WrittenBatch, write: () => Promise<void>): Promise<void> {
    const leave = await importWriters(this.app).enter(currentWork());
    const before = this.#last;
    this.#last = batch;
    const writing = write().catch((error: unknown) => {
      batch.hasFailed = true;
      this.#failure ??= { error: error instanceof NotWritten ? error.cause : error };
    });
    batch.ended = writing.finally(leave).then(() => before?.ended);
    void batch.ended.then(batch.begun.resolve);
  }

  /** Waits until all batches are written. Rejects if one failed. */
  async written(): Promise<void> {
    await this.ended();
    this.#throwFailure();
  }

  /** Waits until all batches are written or have failed. */
  async ended(): Promise<void> {
    await this.#last?.ended;
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }
}
