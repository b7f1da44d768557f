// Work that is done one after the other in this process, in the order in which it was asked for: each
// piece begins when the one before it has ended, well or badly. A failure is told to whoever asked for
// that piece of work, and holds up nothing behind it.

export class Turns {
  #last: Promise<unknown> = Promise.resolve();
  #count = 0;

  /** Whether nothing is being done or waits: what takes its turn now has it at once. */
  get isFree(): boolean {
    return this.#count === 0;
  }

  take<T>(work: () => Promise<T>): Promise<T> {
    this.#count++;
    const turn = this.#last.then(work).finally(() => {
      this.#count--;
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}
