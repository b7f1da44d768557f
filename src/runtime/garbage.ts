// Garbage of calls that move many or large records. The runtime does not count the memory of long texts soon enough, and collects
// late: imports took 105 to 200 MiB, most of it garbage. While such a call runs, resident memory is looked at, which takes
// 8 µs, and what is no longer used is collected when it has grown: then they take 70 to 100. A collection stops the loop for
// about 20 ms on a quiet machine, so the collector rests after it. Times are milliseconds.
// Contract: neighbours#byte-budgets.
import process from 'node:process';

const MIB = 1_048_576;
const LOOK_EVERY_MS = 5;
/** Growth since the first call began, and since the last collection, before the next one. */
const GROWTH = 20 * MIB;
const GROWTH_BETWEEN = 8 * MIB;
/** After a collection: a multiple of the time that it took, and at most. */
const REST = { times: 4, maxMs: 100 };

let collect: (() => void) | undefined;
let watching: ReturnType<typeof setInterval> | undefined;
let calls = 0;

/** For the server: how its runtime collects all garbage and gives the memory back. Without it, nothing is collected here. */
export function collectsGarbage(collector: () => void): void {
  collect = collector;
}

/** Keeps garbage small until the returned function is called. */
export function keepGarbageSmall(): () => void {
  if (collect === undefined) return () => undefined;
  calls += 1;
  if (calls === 1) watching = watch(collect);
  let isOver = false;
  return () => {
    if (isOver) return;
    isOver = true;
    calls -= 1;
    if (calls === 0) clearInterval(watching);
  };
}

function watch(collector: () => void): ReturnType<typeof setInterval> {
  let least = process.memoryUsage.rss();
  /** The least since the last collection gave memory back. */
  let left = least;
  let restsUntil = 0;
  const look = (): void => {
    const held = process.memoryUsage.rss();
    least = Math.min(least, held);
    left = Math.min(left, held);
    const startedAt = performance.now();
    if (startedAt < restsUntil || held < Math.max(least + GROWTH, left + GROWTH_BETWEEN)) return;
    collector();
    const endedAt = performance.now();
    restsUntil = endedAt + Math.min((endedAt - startedAt) * REST.times, REST.maxMs);
    left = Number.POSITIVE_INFINITY;
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  timer.unref?.();
  return timer;
}
