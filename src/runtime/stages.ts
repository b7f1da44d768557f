// What a process has opened, so that it is closed in the opposite order: at the end, or when a later
// part of the start fails. A stage that cannot be closed does not keep the others from it.
// Contract: decisions#shutdown.
import type { Log } from './log.ts';

interface Stage {
  name: string;
  close(): Promise<unknown>;
}

export class Stages {
  readonly #open: Stage[] = [];

  /** Remembers how to close what has just been opened. */
  add(name: string, close: () => Promise<unknown>): void {
    this.#open.push({ name, close });
  }

  /** Closes everything, the last opened first. Resolves to whether all of it went well; failures are logged. */
  async close(log: Log): Promise<boolean> {
    let isClean = true;
    for (let stage = this.#open.pop(); stage !== undefined; stage = this.#open.pop()) {
      const startedAt = Date.now();
      try {
        await stage.close();
        log.debug('stage closed', { stage: stage.name, durationMs: Date.now() - startedAt });
      } catch (error) {
        isClean = false;
        log.error('a stage of the shutdown failed', { stage: stage.name, error });
      }
    }
    return isClean;
  }
}
