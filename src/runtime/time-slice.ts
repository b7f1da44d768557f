// Long work on the event loop in slices: between two of them, timers and input of others get their turn. A caller asks
// after each piece of at most a few milliseconds. Several callers may share a slice, when their pieces follow each
// other without a turn of the loop.
// Contract: neighbours#fair-shares.
import { setImmediate } from 'node:timers';

const SLICE_MS = 8;

export class TimeSlice {
  #endsAt = Number.POSITIVE_INFINITY;

  /** Whether the slice is used up: `await next()` then. A slice begins with the first call after a turn of the loop. */
  get isOver(): boolean {
    const now = performance.now();
    if (this.#endsAt !== Number.POSITIVE_INFINITY) return now >= this.#endsAt;
    this.#endsAt = now + SLICE_MS;
    setImmediate(() => {
      this.#endsAt = Number.POSITIVE_INFINITY;
    });
    return false;
  }

  /** Resolves in a later turn of the event loop. */
  next(): Promise<void> {
    return new Promise((resolve) => void setImmediate(resolve));
  }
}
