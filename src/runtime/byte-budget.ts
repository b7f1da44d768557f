// Bytes that one operation may still use, such as those of a response. What makes bytes takes them from the budget first;
// statements take those that they receive while they receive them.
// Contract: neighbours#byte-budgets.
import type { ServiceError } from '../errors.ts';

export class ByteBudget {
  #left: number;

  /** `refusal` makes the error for an operation that needs more than `max` bytes. */
  constructor(
    private readonly max: number,
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

  /** Throws the refusal when the budget does not suffice. */
  take(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0) throw this.refusal();
  }
}
