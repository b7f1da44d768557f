// Clean-up steps of the bench, run when it ends: finished, failed, or stopped by a signal.
// Steps run once, last first; a step that fails is reported on standard error, and the others still run.
// A file of its own, because both the servers and the scratch databases register steps.

export class Cleanup {
  #steps: Array<{ what: string; undo: () => Promise<unknown> }> = [];
  #running: Promise<void> | undefined;

  later(what: string, undo: () => Promise<unknown>): void {
    this.#steps.push({ what, undo });
  }

  /** Resolves when every step has run; a second call waits for the first. */
  run(): Promise<void> {
    this.#running ??= this.#undoAll();
    return this.#running;
  }

  async #undoAll(): Promise<void> {
    for (let step = this.#steps.pop(); step; step = this.#steps.pop()) {
      try {
        await step.undo();
      } catch (error) {
        console.error(`bench: could not ${step.what}: ${(error as Error).message}`);
      }
    }
  }
}
