// Garbage of calls that read or write many or large records. The runtime does not count the memory of long texts soon enough, and
// collects late: imports took 105 to 200 MiB, most of it garbage. While such a call runs, resident memory is looked at, which takes
// 8 µs, and what is no longer used is collected when it has grown: new garbage often, for about 3 ms, and all of it when that has
// not sufficed, for about 30, or 200 where much is alive, such as the definitions of many tenants. After two such stops, all garbage
// is collected beside the event loop for a minute, which leaves more. The collector rests after each. While other tenants are active,
// they would wait for each collection, 50 ms for one beside the loop too: memory may grow by 128 MiB before the next one. Beside
// eight imports a request took 20 ms instead of 60 for that (p99). Times are milliseconds.
// Contract: neighbours#byte-budgets.
import process from 'node:process';
import { areOthersActive, currentWork } from './work.ts';

const MIB = 1_048_576;
const LOOK_EVERY_MS = 5;
/** What to collect; `all-beside` stops the event loop for less time, and leaves more. */
export type Garbage = 'new' | 'all' | 'all-beside';
const KINDS = ['new', 'all', 'all-beside'] as const;
/** What is collected while one tenant is active, and while several are. */
const ALONE = ['all', 'new'] as const;
const BESIDE_OTHERS = ['all-beside'] as const;

/** Growth since the first call began, and since the last collection of the kind, before the next one. */
const GROWTH = {
  new: { since: 10 * MIB, between: 4 * MIB },
  all: { since: 20 * MIB, between: 8 * MIB },
  'all-beside': { since: 128 * MIB, between: 64 * MIB },
} as const;
/** After a collection: a multiple of the time that it took, and at most; one beside the loop has just begun. */
const REST = { times: 4, maxMs: 100 };
const BESIDE_REST_MS = 500;

/**
 * How long a collection may stop the loop; after so many longer ones in a row, all garbage is collected beside it for a while. The
 * thread must have worked for a part of that time, since on a busy machine any collection takes longer: it works for 6 to 12 ms of
 * 30, or for 15 to 30 of 70 to 120 where much is alive.
 */
const STOP_MAX = { ms: 50, workedMs: 15, inARow: 2 };
const BESIDE_MS = 60_000;

/** Growth from which what makes the garbage should slow down: the collector does not keep up, as on a busy machine. */
const BEHIND = { alone: 96 * MIB, besideOthers: 192 * MIB };

/** Keeps the garbage of calls small with a collector. */
export class SmallGarbage {
  /** The shares of the calls. */
  readonly #calls = new Set<{ share: string }>();
  #watching: ReturnType<typeof setInterval> | undefined;
  #isBehind = false;
  #besideUntil = 0;
  #longInARow = 0;

  constructor(private readonly collect: (which: Garbage) => void) {}

  /** Whether the collector does not keep up. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  /** Keeps it small until the returned function is called. */
  keep(): () => void {
    const call = { share: currentWork().share };
    if (this.#calls.size === 0) this.#watching = this.#watch();
    this.#calls.add(call);
    return () => {
      if (!this.#calls.delete(call) || this.#calls.size > 0) return;
      clearInterval(this.#watching);
      this.#isBehind = false;
    };
  }

  /** Whether tenants are active that have none of these calls, or several have some. */
  #areOthersThere(): boolean {
    const shares = new Set([...this.#calls].map(({ share }) => share));
    return shares.size > 1 || [...shares].some(areOthersActive);
  }

  #watch(): ReturnType<typeof setInterval> {
    let least = process.memoryUsage.rss();
    /** The least since the last collection of the kind gave memory back, and until when it rests. */
    const left = { new: least, all: least, 'all-beside': least };
    const restsUntil = { new: 0, all: 0, 'all-beside': 0 };
    const look = (): void => {
      const held = process.memoryUsage.rss();
      const startedAt = performance.now();
      least = Math.min(least, held);
      for (const which of KINDS) left[which] = Math.min(left[which], held);
      const isAlone = !this.#areOthersThere();
      this.#isBehind = held - least > (isAlone ? BEHIND.alone : BEHIND.besideOthers);
      const due = (isAlone ? ALONE : BESIDE_OTHERS).find(
        (which) =>
          startedAt >= restsUntil[which] &&
          held >= Math.max(least + GROWTH[which].since, left[which] + GROWTH[which].between),
      );
      if (due === undefined) return;
      const endedAt = this.#collected(due, startedAt);
      const restMs = due === 'all-beside' ? BESIDE_REST_MS : Math.min((endedAt - startedAt) * REST.times, REST.maxMs);
      restsUntil[due] = endedAt + restMs;
      left[due] = Number.POSITIVE_INFINITY;
      if (due !== 'new') left.new = Number.POSITIVE_INFINITY;
    };
    const timer = setInterval(look, LOOK_EVERY_MS);
    timer.unref?.();
    return timer;
  }

  /** Collects, and notes whether the loop stood still for long; returns when it ended. */
  #collected(due: Garbage, startedAt: number): number {
    const worked = workedMs();
    this.collect(due === 'all' && startedAt < this.#besideUntil ? 'all-beside' : due);
    const endedAt = performance.now();
    if (due === 'new') return endedAt;
    const isLong = endedAt - startedAt > STOP_MAX.ms && workedMs() - worked > STOP_MAX.workedMs;
    this.#longInARow = isLong ? this.#longInARow + 1 : 0;
    if (this.#longInARow === STOP_MAX.inARow) this.#besideUntil = endedAt + BESIDE_MS;
    return endedAt;
  }
}

/** Of this process; undefined where nothing is collected here. */
let garbage: SmallGarbage | undefined;

/** For the server: how its runtime collects garbage and gives the memory back. Without it, nothing is collected here. */
export function collectsGarbage(collector: (which: Garbage) => void): void {
  garbage = new SmallGarbage(collector);
}

/** Keeps garbage small until the returned function is called. */
export function keepGarbageSmall(): () => void {
  return garbage?.keep() ?? (() => undefined);
}

/** Whether the collector does not keep up, while garbage is kept small. */
export function isGarbageBehind(): boolean {
  return garbage?.isBehind ?? false;
}

/** CPU time of this thread. */
function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
