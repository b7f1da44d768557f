// Writes the batches of an import, or of another upload of that size, one after the other, each while the next one is read. A batch
// may take several megabytes and a tenant may upload many files at once, so the batches of a process wait for a slot, by tenant.
// Failures: a batch that fails is reported when the next one begins, and at the end.
// Contract: decisions#import, portability#import.
import { type App, perApp } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { Semaphore } from '../../runtime/concurrency.ts';
import { currentWork } from '../../runtime/work.ts';

const { batchesWriting: slots, batchesWaiting: shareWaitingMax } = LIMITS.transfer;

/** Slots for the batches of a process, also of other work of that size. */
export const importWriters = perApp(() => new Semaphore({ name: 'imports', slots, shareWaitingMax, limitsLong: true }));

export class BatchWriting {
  #writing: Promise<void> = Promise.resolve();
  #failure: { error: unknown } | null = null;

  constructor(private readonly app: App) {}

  /** Starts writing a batch when the previous one is written. Rejects if that one failed. */
  async start(write: () => Promise<void>): Promise<void> {
    await this.written();
    const leave = await importWriters(this.app).enter(currentWork());
    this.#writing = write()
      .catch((error: unknown) => {
        this.#failure = { error };
      })
      .finally(leave);
  }

  /** Waits until the current batch is written. Rejects if it failed. */
  async written(): Promise<void> {
    await this.ended();
    if (this.#failure !== null) throw this.#failure.error;
  }

  /** Waits until the current batch is written or has failed. */
  async ended(): Promise<void> {
    await this.#writing;
  }
}
