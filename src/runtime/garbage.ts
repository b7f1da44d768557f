// Garbage of calls that read or write many or large records. The runtime does not count the memory of long texts soon enough, and
// collects late: imports took 105 to 200 MiB, most of it garbage. While such a call runs, resident memory is looked at, which takes
// 8 µs, and what is no longer used is collected when it has grown: new garbage often, for about 3 ms, and all of it when that has
// not sufficed, for about 30, or 200 where much is alive, such as the definitions of many tenants. After two such stops, all garbage
// is collected beside the event loop for a minute, which leaves more. The collector rests after each. Times are milliseconds.
// Contract: neighbours#byte-budgets.
import process from 'node:process';

const MIB = 1_048_576;
const LOOK_EVERY_MS = 5;
/** What to collect; `all-beside` does not stop the event loop. */
export type Garbage = 'new' | 'all' | 'all-beside';

/** Growth since the first call began, and since the last collection of the kind, before the next one. */
const GROWTH = {
  new: { since: 10 * MIB, between: 4 * MIB },
  all: { since: 20 * MIB, between: 8 * MIB },
} as const;
type Kind = keyof typeof GROWTH;
/** After a collection: a multiple of the time that it took, and at most. */
const REST = { times: 4, maxMs: 100 };

/**
 * How long a collection may stop the loop; after so many longer ones in a row, all garbage is collected beside it for a while. The
 * thread must have worked for a part of that time, since on a busy machine any collection takes longer: it works for 6 to 12 ms of
 * 30, or for 15 to 30 of 70 to 120 where much is alive.
 */
const STOP_MAX = { ms: 50, workedMs: 15, inARow: 2 };
const BESIDE_MS = 60_000;

let besideUntil = 0;
let longInARow = 0;
let collect: ((which: Garbage) => void) | undefined;
let watching: ReturnType<typeof setInterval> | undefined;
let calls = 0;

/** For the server: how its runtime collects garbage and gives the memory back. Without it, nothing is collected here. */
export function collectsGarbage(collector: (which: Garbage) => void): void {
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

function watch(collector: (which: Garbage) => void): ReturnType<typeof setInterval> {
  let least = process.memoryUsage.rss();
  /** The least since the last collection of the kind gave memory back, and until when it rests. */
  const left = { new: least, all: least };
  const restsUntil = { new: 0, all: 0 };
  const look = (): void => {
    const held = process.memoryUsage.rss();
    const startedAt = performance.now();
    least = Math.min(least, held);
    left.new = Math.min(left.new, held);
    left.all = Math.min(left.all, held);
    const isDue = (which: Kind): boolean =>
      startedAt >= restsUntil[which] &&
      held >= Math.max(least + GROWTH[which].since, left[which] + GROWTH[which].between);
    const which: Kind = isDue('all') ? 'all' : 'new';
    if (which === 'new' && !isDue('new')) return;
    const worked = workedMs();
    collector(which === 'all' && startedAt < besideUntil ? 'all-beside' : which);
    const endedAt = performance.now();
    const tookMs = endedAt - startedAt;
    const isLong = tookMs > STOP_MAX.ms && workedMs() - worked > STOP_MAX.workedMs;
    restsUntil[which] = endedAt + Math.min(tookMs * REST.times, REST.maxMs);
    left.new = Number.POSITIVE_INFINITY;
    if (which === 'new') return;
    left.all = Number.POSITIVE_INFINITY;
    longInARow = isLong ? longInARow + 1 : 0;
    if (longInARow === STOP_MAX.inARow) besideUntil = endedAt + BESIDE_MS;
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  timer.unref?.();
  return timer;
}

/** CPU time of this thread. */
function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
