// Limits on how much runs at once within a process: a semaphore that serves its waiting callers fairly, a lock per key, a serial queue,
// and a loop with bounded concurrency. A share whose queue is full gets 503 at once; other shares are not affected. When a client
// disconnects, its call leaves the queue. Times are milliseconds. Contract: neighbours#fair-shares.
import { clientGone, unavailable } from '../errors.ts';
import { FairQueue } from './fair-queue.ts';
import type { Ticket } from './fair-share.ts';
import { areOthersActive, currentWork, isGone, type Work } from './work.ts';

/** How often a queue looks for tickets that have waited too long, or whose client has disconnected. */
export const WATCH_MS = 100;

/** What a queue needs to know about waiting work. */
export interface Waiter {
  readonly work: Work;
  readonly enteredAt: number;
  readonly expiresAt: number;
  /** Called once the call waits. */
  reject(error: unknown): void;
}

/** Removes tickets that have waited too long, or that no client waits for any more. */
export function expireWaiting<T extends Waiter>(queue: FairQueue<T>, now: number, message: string): void {
  for (const ticket of queue.waiting()) {
    const { work, enteredAt, expiresAt } = ticket.item;
    const error =
      now >= expiresAt ? unavailable(message) : now - enteredAt >= WATCH_MS && isGone(work) ? clientGone() : undefined;
    if (error === undefined) continue;
    queue.end(ticket, 0);
    ticket.item.reject(error);
  }
}

export interface SemaphoreOptions {
  /** The name for `waitingIn`, of a semaphore that exists once in the process. */
  name?: string;
  slots: number;
  /** Additional slots for operators' work only. */
  operatorSlots?: number;
  /** How many callers of one share may wait. */
  shareWaitingMax: number;
  /** How long a caller may wait; without it, for ever. */
  waitMs?: number;
  /** Whether a share whose tasks run long has fewer slots while others are active. */
  limitsLong?: boolean;
}

interface WaitingTask extends Waiter {
  resolve(): void;
}

const named = new Map<string, Semaphore>();

/** How many callers wait in the semaphore with this name. */
export function waitingIn(name: string): number {
  return named.get(name)?.waiting ?? 0;
}

export class Semaphore {
  readonly #queue: FairQueue<WaitingTask>;
  readonly #waitMs: number;
  #clock: ReturnType<typeof setInterval> | undefined;

  constructor({ name, slots, operatorSlots = 1, shareWaitingMax, waitMs, limitsLong = false }: SemaphoreOptions) {
    this.#waitMs = waitMs ?? Number.POSITIVE_INFINITY;
    this.#queue = new FairQueue({
      slots,
      operatorSlots,
      shareWaitingMax,
      ...(limitsLong ? { long: { areOthersActive } } : {}),
    });
    if (name !== undefined) named.set(name, this);
  }

  get isIdle(): boolean {
    return this.#queue.running + this.#queue.length === 0;
  }

  /** Callers that wait for a slot. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Runs the task as soon as a slot is free. Rejects with 503 when the share's queue is full or the wait too long. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    const leave = await this.enter(currentWork());
    try {
      return await task();
    } finally {
      leave();
    }
  }

  /** Resolves when the work holds a slot, to a function that frees it. Rejects as `run` does. */
  async enter(work: Work): Promise<() => void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const ticket = this.#ticket(work, resolve, reject);
    if (ticket === null) throw unavailable('too many requests of this kind at once; try later');
    if (ticket.state === 'waiting') this.#clock ??= setInterval(() => this.#watch(), WATCH_MS);
    await promise;
    return this.#leaving(ticket);
  }

  /** Like `enter`, but returns null if the work cannot have a slot now. */
  tryEnter(work: Work): (() => void) | null {
    const ignore = (): void => undefined;
    const ticket = this.#ticket(work, ignore, ignore);
    if (ticket?.state === 'running') return this.#leaving(ticket);
    if (ticket !== null) this.#queue.end(ticket, 0);
    return null;
  }

  #ticket(work: Work, resolve: () => void, reject: (error: unknown) => void): Ticket<WaitingTask> | null {
    const enteredAt = Date.now();
    const task = { work, enteredAt, expiresAt: enteredAt + this.#waitMs, resolve, reject };
    const ticket = this.#queue.enter(work.share, work.isOperator, task);
    if (ticket !== null) this.#startWaiting();
    return ticket;
  }

  #leaving(ticket: Ticket<WaitingTask>): () => void {
    const startedAt = performance.now();
    return () => {
      this.#queue.end(ticket, performance.now() - startedAt);
      this.#startWaiting();
    };
  }

  #startWaiting(): void {
    for (let ticket = this.#queue.start(); ticket !== undefined; ticket = this.#queue.start()) ticket.item.resolve();
  }

  #watch(): void {
    expireWaiting(this.#queue, Date.now(), 'too many requests of this kind at once; try later');
    if (this.#queue.length > 0) return;
    clearInterval(this.#clock);
    this.#clock = undefined;
  }
}

/** Runs one task at a time per key; `shareWaitingMax` more of each share wait, and further ones reject with 503. */
export class KeyedLock {
  readonly #semaphores = new Map<string, Semaphore>();

  constructor(private readonly shareWaitingMax: number) {}

  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const options = { slots: 1, operatorSlots: 0, shareWaitingMax: this.shareWaitingMax };
    const semaphore = this.#semaphores.get(key) ?? new Semaphore(options);
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
