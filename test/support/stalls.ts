// How long the event loop stands still while something runs, in milliseconds. A stall is a gap between two ticks of a
// timer in which this thread also used that much CPU time: on a busy machine it waits for a core as well, which is no
// stall. Where the kernel does not tell the time of a thread, other threads count too, so a limit needs a wide margin.
// Measures this process only: with SERVICE_RUNTIME=deno the service is another one, and `slowestHealth` sees its stalls.
import { readFileSync } from 'node:fs';
import process from 'node:process';

const TICK_MS = 2;
/** Where a test means the contract's 50 ms: other threads and the collector of garbage take part of the time. */
export const STALL_MAX_MS = 250;

export interface Measured<T> {
  result: T;
  /** The longest stall. */
  stallMs: number;
}

/** Runs something and measures the longest stall of this process's event loop meanwhile. */
export async function measureStall<T>(run: () => Promise<T> | T): Promise<Measured<T>> {
  let stallMs = 0;
  let last = { wall: performance.now(), cpu: threadTimes().cpuMs };
  const tick = (): void => {
    const now = { wall: performance.now(), cpu: threadTimes().cpuMs };
    stallMs = Math.max(stallMs, Math.min(now.wall - last.wall, now.cpu - last.cpu));
    last = now;
  };
  const timer = setInterval(tick, TICK_MS);
  try {
    await nextTick();
    const result = await run();
    await nextTick();
    return { result, stallMs };
  } finally {
    clearInterval(timer);
  }
}

/** Runs something and measures the slowest response of GET /health meanwhile. On a busy machine it is slow as well. */
export async function slowestHealth<T>(url: string, run: () => Promise<T>): Promise<Measured<T>> {
  let stallMs = 0;
  let isRunning = true;
  const poll = async (): Promise<void> => {
    while (isRunning) {
      const startedAt = performance.now();
      await (await fetch(`${url}/health`)).arrayBuffer();
      stallMs = Math.max(stallMs, performance.now() - startedAt);
      await nextTick();
    }
  };
  const polling = poll();
  try {
    const result = await run();
    isRunning = false;
    await polling;
    return { result, stallMs };
  } finally {
    isRunning = false;
  }
}

/** The CPU time of this thread, and how long it waited for a core; that of the process where the kernel does not tell. */
export function threadTimes(): { cpuMs: number; waitedMs: number } {
  try {
    const [onCpuNs, waitedNs] = readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ');
    return { cpuMs: Number(onCpuNs) / 1e6, waitedMs: Number(waitedNs) / 1e6 };
  } catch {
    const { user, system } = process.cpuUsage();
    return { cpuMs: (user + system) / 1_000, waitedMs: 0 };
  }
}

/** Two turns of the timer: the first may be a tick that was already due. */
async function nextTick(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 2 * TICK_MS));
}
