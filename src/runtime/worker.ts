// The loop around a background job: run a round at once, again while rounds find work, else sleep until the
// poll interval or a nudge. Failed rounds are logged and retried with growing, jittered pauses. Times are
// milliseconds. Nudges carry no data: a lost one costs latency only. Contract: decisions#events.
import { setTimeout as delay } from 'node:timers/promises';

import type { Log } from './log.ts';

export interface WorkerOptions {
  name: string;
  /** One round; resolves to how much work it did. Gives up early, without an error, when the signal aborts. */
  once(signal: AbortSignal): Promise<number>;
  pollMs: number;
  log: Log;
}

export interface Worker {
  /** Starts the next round now, or right after the one in flight. */
  nudge(): void;
  /** Aborts the signal and resolves when the round in flight has ended. */
  stop(): Promise<void>;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;

/** Starts the loop. A round that throws never ends it. */
export function startWorker(options: WorkerOptions): Worker {
  const stopping = new AbortController();
  const bell = new Bell();
  const running = loop(options, stopping.signal, bell);
  return {
    nudge: () => bell.ring(),
    stop: async () => {
      stopping.abort();
      bell.ring();
      await running;
    },
  };
}

async function loop(options: WorkerOptions, signal: AbortSignal, bell: Bell): Promise<void> {
  const { name, once, pollMs, log } = options;
  let failures = 0;
  while (!signal.aborted) {
    bell.clear();
    try {
      const done = await once(signal);
      failures = 0;
      if (done === 0) await bell.heard(pollMs);
    } catch (error) {
      if (signal.aborted) return;
      failures++;
      log.error('a background round failed', { worker: name, failures, error });
      await pause(failures, signal);
    }
  }
}

/** After failures nudges do not count: a database that is away is not asked at every write. */
async function pause(failures: number, signal: AbortSignal): Promise<void> {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
  await sleep(longest * (0.5 + Math.random() / 2), signal);
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** A nudge that is remembered until somebody listens. Rung for every commit, so it costs next to nothing. */
class Bell {
  #rung = false;
  #wake = () => {};

  ring(): void {
    this.#rung = true;
    this.#wake();
  }

  clear(): void {
    this.#rung = false;
  }

  /** Resolves at the next ring, or after `ms`. */
  async heard(ms: number): Promise<void> {
    if (this.#rung) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = () => {};
  }
}
