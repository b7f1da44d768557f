// The loop around a background job: rounds run back to back while they find work, else after the poll interval
// or a nudge. Failed rounds are logged and retried with exponential, jittered back-off. Times are
// milliseconds. Nudges carry no data: a lost one costs latency only. Contract: decisions#operations.
import { setTimeout as delay } from 'node:timers/promises';

import type { Log } from './log.ts';

export interface WorkerOptions {
  name: string;
  /** One round; resolves to the amount of work done. Returns early, without an error, when the signal aborts. */
  once(signal: AbortSignal): Promise<number>;
  pollMs: number;
  log: Log;
}

export interface Worker {
  /** Starts the next round now, or right after the current one. */
  nudge(): void;
  /** Aborts the signal; resolves when the current round has ended. */
  stop(): Promise<void>;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;

/** Starts the loop. A failed round does not end it. */
export function startWorker(options: WorkerOptions): Worker {
  const stopping = new AbortController();
  const wake = new WakeSignal();
  const running = loop(options, stopping.signal, wake);
  return {
    nudge: () => wake.set(),
    stop: async () => {
      stopping.abort();
      wake.set();
      await running;
    },
  };
}

async function loop(options: WorkerOptions, signal: AbortSignal, wake: WakeSignal): Promise<void> {
  const { name, once, pollMs, log } = options;
  let failures = 0;
  while (!signal.aborted) {
    wake.clear();
    try {
      const done = await once(signal);
      failures = 0;
      if (done === 0) await wake.wait(pollMs);
    } catch (error) {
      if (signal.aborted) return;
      failures++;
      log.error('a background round failed', { worker: name, failures, error });
      await pause(failures, signal);
    }
  }
}

/** Ignores nudges, so an unavailable database is not queried at every write. */
async function pause(failures: number, signal: AbortSignal): Promise<void> {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
  await delay(longest * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
}

/** An auto-reset event: a nudge is remembered until the next wait. Set at every commit, so it must be cheap. */
class WakeSignal {
  #isSet = false;
  #resolve = () => {};

  set(): void {
    this.#isSet = true;
    this.#resolve();
  }

  clear(): void {
    this.#isSet = false;
  }

  /** Resolves at the next `set`, or after `ms`. */
  async wait(ms: number): Promise<void> {
    if (this.#isSet) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#resolve = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#resolve = () => {};
  }
}
