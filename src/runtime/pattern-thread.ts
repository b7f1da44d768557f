// Compiles and matches costly patterns in a thread of this process, one at a time and in fair shares, while the event loop serves others.
// The thread starts with the first costly pattern, does not keep the process alive, and is replaced when it fails.
// Failures: 503 when too many wait, or when the thread fails twice.
// Contract: neighbours#fair-shares.
import { Worker } from 'node:worker_threads';

import { unavailable } from '../errors.ts';
import { Semaphore } from './concurrency.ts';

const SHARE_WAITING_MAX = 1_000;
const WAIT_MS = 30_000;
/** The limits on patterns admit a quarter of a second. */
const TAKES_AT_MOST_MS = 10_000;

export interface PatternResult {
  /** Instructions of the program; null when the pattern is not valid. */
  size: number | null;
  /** Null without a value. */
  matches: boolean | null;
}

const semaphore = new Semaphore({
  name: 'patterns',
  slots: 1,
  operatorSlots: 0,
  shareWaitingMax: SHARE_WAITING_MAX,
  waitMs: WAIT_MS,
});
let thread: Worker | undefined;

/** Compiles the pattern, and matches the value unless it is null. */
export function runInThread(source: string, value: string | null): Promise<PatternResult> {
  return semaphore.run(async () => {
    try {
      return await post(source, value);
    } catch {
      // Its memory may have run out, or the process is closing an app while another one goes on.
      return post(source, value).catch(() => {
        throw unavailable('patterns cannot be matched now; try later');
      });
    }
  });
}

/** Ends the thread. A later match starts another one. */
export async function endPatternThread(): Promise<void> {
  const ending = thread;
  thread = undefined;
  await ending?.terminate();
}

async function post(source: string, value: string | null): Promise<PatternResult> {
  const worker = thread ?? start();
  thread = worker;
  const { promise, resolve, reject } = Promise.withResolvers<PatternResult>();
  const onEnd = (): void => reject(new Error('the pattern thread has ended'));
  const timer = setTimeout(onEnd, TAKES_AT_MOST_MS);
  worker.once('message', resolve);
  worker.once('error', reject);
  worker.once('exit', onEnd);
  try {
    worker.postMessage({ source, value });
    return await promise;
  } catch (error) {
    if (thread === worker) thread = undefined;
    void worker.terminate();
    throw error;
  } finally {
    clearTimeout(timer);
    worker.off('message', resolve);
    worker.off('error', reject);
    worker.off('exit', onEnd);
  }
}

function start(): Worker {
  const worker = new Worker(new URL('./patterns/thread.ts', import.meta.url));
  worker.unref();
  // An error between two matches: the next one finds that the thread has ended.
  worker.on('error', () => {
    if (thread === worker) thread = undefined;
  });
  worker.on('exit', () => {
    if (thread === worker) thread = undefined;
  });
  return worker;
}
