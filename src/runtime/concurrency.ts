// Limits on what runs at once within a process: a semaphore with a bounded queue, a serial queue, and
// a loop with bounded concurrency. All are first come, first served. A full semaphore rejects with 503
// at once, so other requests do not wait behind a burst of password hashes or mails.
import { unavailable } from '../errors.ts';

export class Semaphore {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  /** `slots` tasks run at once; `maxWaiting` more wait. */
  constructor(
    private readonly slots: number,
    private readonly maxWaiting: number,
  ) {}

  get isIdle(): boolean {
    return this.#running === 0 && this.#waiting.length === 0;
  }

  /** Runs the task as soon as a slot is free. Rejects with 503 when the queue is full. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#running >= this.slots) await this.#slot();
    else this.#running += 1;
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  /** Resolves when a finished task hands over its slot. */
  #slot(): Promise<void> {
    if (this.#waiting.length >= this.maxWaiting) throw unavailable('too many requests of this kind at once; try later');
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** Runs one task at a time per key; `maxWaiting` more wait, and further ones reject with 503. */
export class KeyedLock {
  readonly #semaphores = new Map<string, Semaphore>();

  constructor(private readonly maxWaiting: number) {}

  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const semaphore = this.#semaphores.get(key) ?? new Semaphore(1, this.maxWaiting);
    this.#semaphores.set(key, semaphore);
    try {
      return await semaphore.run(task);
    } finally {
      if (semaphore.isIdle) this.#semaphores.delete(key);
    }
  }
}

/** Runs tasks one at a time, in order. A failed task rejects for its caller only. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();
  #count = 0;

  get isIdle(): boolean {
    return this.#count === 0;
  }

  run<T>(task: () => Promise<T>): Promise<T> {
    this.#count++;
    const result = this.#last.then(task).finally(() => {
      this.#count--;
    });
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/** Runs `task` for each item, at most `limit` at once. After a failure it starts no further task and rejects once the running ones have ended. */
export async function forEachConcurrently<T>(
  items: readonly T[],
  limit: number,
  task: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  const failures: unknown[] = [];
  const run = async (): Promise<void> => {
    for (const item of queue) {
      try {
        await task(item);
      } catch (error) {
        failures.push(error);
      }
      if (failures.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: limit }, run));
  if (failures.length > 0) throw failures[0];
}
