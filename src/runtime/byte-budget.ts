// Bytes that one operation may still use, such as the bytes of a response. Code that produces bytes takes them from the budget first;
// statements take bytes while they receive them.
// Contract: neighbours#byte-budgets.
import type { ServiceError } from '../errors.ts';
import { holdBytes, PlaceNeeded, waitForPlace } from './large-calls.ts';
import { currentWork } from './work.ts';

export class ByteBudget {
  #left: number;
  /** Kept here because bytes may be taken outside the work's context, such as while they are received. */
  readonly #work = currentWork();

  /** `refusal` makes the error for an operation that needs more than `max` bytes. */
  constructor(
    readonly max: number,
    private readonly refusal: () => ServiceError,
  ) {
    this.#left = max;
  }

  /** Bytes taken so far, including those beyond the budget. */
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

  /** Like `take`, for code that can wait at this point: waits for a place when the call needs one. */
  async takeWaiting(bytes: number): Promise<void> {
    try {
      this.take(bytes);
    } catch (error) {
      if (!(error instanceof PlaceNeeded)) throw error;
      await waitForPlace();
    }
  }

  /** Gives back everything that has been taken since `taken` had this value. */
  returnTo(taken: number): void {
    this.#left = this.max - taken;
  }
}
