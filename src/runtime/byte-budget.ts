// Bytes that one operation may still use, such as those of a response. What makes bytes takes them from the budget first;
// statements take those that they receive while they receive them.
// Contract: neighbours#byte-budgets.
import type { ServiceError } from '../errors.ts';
import { holdBytes, PlaceNeeded, waitForPlace } from './large-calls.ts';
import { currentWork } from './work.ts';

export class ByteBudget {
  #left: number;
  /** Bytes may be taken outside the work's context, such as while they are received. */
  readonly #work = currentWork();

  /** `refusal` makes the error for an operation that needs more than `max` bytes. */
  constructor(
    readonly max: number,
    private readonly refusal: () => ServiceError,
  ) {
    this.#left = max;
  }

  /** Bytes taken so far, with those that were too many. */
  get taken(): number {
    return this.max - this.#left;
  }

  get isExceeded(): boolean {
    return this.#left < 0;
  }

  /** Throws the refusal when the budget does not suffice, and `PlaceNeeded` when the call has to wait before it takes more. */
  take(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0) throw this.refusal();
    holdBytes(this.#work, this.taken);
  }

  /** The same, for what can wait where it is: waits for a place when the call needs one. */
  async takeWaiting(bytes: number): Promise<void> {
    try {
      this.take(bytes);
    } catch (error) {
      if (!(error instanceof PlaceNeeded)) throw error;
      await waitForPlace();
    }
  }

  /** Gives back what has been taken since `taken` was this. */
  returnTo(taken: number): void {
    this.#left = this.max - taken;
  }
}
