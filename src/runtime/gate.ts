// A bounded queue before something that only a few may do at once: hashing a password, speaking to
// a mail server. Whoever comes when the queue is full is turned away at once with 503, so that a
// storm costs its senders and nobody else. First come, first served.
import { unavailable } from '../errors.ts';

export class Gate {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  /** `slots` tasks run at once, `maxWaiting` more wait. */
  constructor(
    private readonly slots: number,
    private readonly maxWaiting: number,
  ) {}

  /** Whether nothing runs or waits. */
  get isIdle(): boolean {
    return this.#running === 0 && this.#waiting.length === 0;
  }

  /** Runs the task in its turn. 503 when too many wait already. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#running >= this.slots) await this.#turn();
    else this.#running += 1;
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  /** Resolves when a task that ends hands its slot on. */
  #turn(): Promise<void> {
    if (this.#waiting.length >= this.maxWaiting) throw unavailable('too many requests of this kind at once; try later');
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
