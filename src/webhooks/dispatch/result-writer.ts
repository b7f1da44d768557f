// The endings of attempts on their way into the database: those that come in within moments, or
// while a statement runs, are written together by the next one. With the database away they wait, and past its lease a
// delivery is sent again by whoever claims it. Contract: decisions#deliveries.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../../app.ts';
import { type AttemptResult, saveResults } from './results.ts';

const AGAIN_MS = 250;
/** How long the first ending waits for others to be written with it. */
const GATHER_MS = 5;
const BATCH = 500;

export class ResultWriter {
  #waiting: { ending: AttemptResult; written: () => void }[] = [];
  #isWriting = false;

  /** `roused` hears of every subscription of which something has waited for what has been written down. */
  constructor(
    private readonly app: App,
    private readonly stopping: AbortSignal,
    private readonly roused: (subscriptionId: string) => void,
  ) {}

  /** Resolves when the ending is written, or, once the process is stopping, given up. */
  write(ending: AttemptResult): Promise<void> {
    return new Promise((written) => {
      this.#waiting.push({ ending, written });
      if (!this.#isWriting) void this.#writeAll();
    });
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    await delay(GATHER_MS);
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      if (await this.#writeBatch(batch.map(({ ending }) => ending))) for (const { written } of batch) written();
      else this.#waiting.unshift(...batch);
    }
    this.#isWriting = false;
  }

  /** False when it is to be tried again. */
  async #writeBatch(endings: readonly AttemptResult[]): Promise<boolean> {
    try {
      for (const id of await saveResults(this.app, endings)) this.roused(id);
      return true;
    } catch (error) {
      this.app.log.warn('outcomes of deliveries could not be written yet', { count: endings.length, error });
      if (this.stopping.aborted) return true;
      await delay(AGAIN_MS);
      return false;
    }
  }
}
