// Long work on the event loop in slices: between two of them, timers and input of others get their turn. A caller asks
// after each piece of at most a few milliseconds.
// Contract: neighbours#fair-shares.
const SLICE_MS = 8;

export class TimeSlice {
  #startedAt = performance.now();

  /** Whether the slice is used up: `await next()` then. */
  get isOver(): boolean {
    return performance.now() - this.#startedAt > SLICE_MS;
  }

  /** Resolves in a later turn of the event loop, in which a new slice starts. */
  async next(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#startedAt = performance.now();
  }
}
