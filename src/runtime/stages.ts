// Closes what a process opened, in reverse order: at shutdown, or when a later part of the start fails.
// A stage that fails to close does not prevent the others from closing.
// Contract: decisions#shutdown.
import type { Log } from './log.ts';

export class Stages {
  readonly #open: { name: string; close(): Promise<unknown> }[] = [];

  /** Registers how to close what has just been opened. */
  add(name: string, close: () => Promise<unknown>): void {
    this.#open.push({ name, close });
  }

  /** Closes all stages, the last opened first. Resolves to whether all succeeded; failures are logged. */
  async close(log: Log): Promise<boolean> {
    let isClean = true;
    for (let stage = this.#open.pop(); stage !== undefined; stage = this.#open.pop()) {
      const startedAt = Date.now();
      try {
        await stage.close();
        log.debug('stage closed', { stage: stage.name, durationMs: Date.now() - startedAt });
      } catch (error) {
        isClean = false;
        log.error('a shutdown stage failed', { stage: stage.name, error });
      }
    }
    return isClean;
  }
}
