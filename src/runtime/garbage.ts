// Keeps the garbage of calls that read or write many or large records small. The runtime counts the memory of long texts too late, so
// it collects late: imports took 105 to 200 MiB, most of it garbage. While such a call runs, this file checks resident memory (8 µs)
// and collects when it has grown: new garbage often (about 3 ms), and all garbage when that has not sufficed (about 30 ms, or 200
// where much is alive, such as the definitions of many tenants). After two such long stops, full collections run beside the event loop
// for a minute, which leaves more garbage. The collector rests after each. While other tenants are active, memory may grow by 128 MiB
// before the next collection, since they would wait for it: 50 ms even for one beside the loop. So a request beside eight imports took
// 20 ms instead of 60 (p99).
// Times are milliseconds. Contract: neighbours#byte-budgets.
import process from 'node:process';
import { areOthersActive, currentWork } from './work.ts';

const MIB = 1_048_576;
const LOOK_EVERY_MS = 5;
/** What to collect. `all-beside` stops the event loop for less time, and leaves more garbage. */
export type Garbage = 'new' | 'all' | 'all-beside';
const KINDS = ['new', 'all', 'all-beside'] as const;
/** What to collect while one tenant is active, and while several are. */
const ALONE = ['all', 'new'] as const;
const BESIDE_OTHERS = ['all-beside'] as const;

/** Growth that triggers a collection: since the first call began, and since the last collection of this kind. */
const GROWTH = {
  new: { since: 10 * MIB, between: 4 * MIB },
  all: { since: 20 * MIB, between: 8 * MIB },
  'all-beside': { since: 128 * MIB, between: 64 * MIB },
} as const;
/** The rest after a collection: a multiple of the time that it took, up to a maximum. A collection beside the loop has only just begun. */
const REST = { times: 4, maxMs: 100 };
const BESIDE_REST_MS = 500;

/**
 * How long a collection may stop the loop. After this many longer ones in a row, full collections run beside the loop for a while. Only
 * collections count in which the thread worked for long, since on a busy machine any collection takes longer: the thread works for 6 to
 * 12 ms of 30, or for 15 to 30 of 70 to 120 where much is alive.
 */
const STOP_MAX = { ms: 50, workedMs: 15, inARow: 2 };
const BESIDE_MS = 60_000;

/** Growth from which the producers of garbage should slow down: the collector does not keep up, as on a busy machine. */
const BEHIND = { alone: 96 * MIB, besideOthers: 192 * MIB };

/** Keeps the garbage of calls small. */
export class SmallGarbage {
  /** The calls that run, with their shares. */
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

  /** Whether a tenant without such a call is active, or several tenants have such calls. */
  #areOthersThere(): boolean {
    const shares = new Set([...this.#calls].map(({ share }) => share));
    return shares.size > 1 || [...shares].some(areOthersActive);
  }

  #watch(): ReturnType<typeof setInterval> {
    let least = process.memoryUsage.rss();
    /** By kind of collection: the least memory since the last one gave memory back, and until when it rests. */
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

  /** Collects, and notes whether the loop stopped for long; returns the time at which it ended. */
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

/** The collector of this process; undefined where nothing is collected here. */
let garbage: SmallGarbage | undefined;

/** Called by the server: how its runtime collects garbage and gives memory back. Without this call, nothing is collected here. */
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
