// Work that is done one after the other in this process, in the order in which it was asked for: each
// piece begins when the one before it has ended, well or badly. A failure is told to whoever asked for
// that piece of work, and holds up nothing behind it.

export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}
