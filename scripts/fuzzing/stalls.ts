// How long the event loop of a thread stands still, by the CPU time of its thread: a gap between two ticks of a timer
// counts with the time that the thread was on a core meanwhile. On a busy machine it waits for a core as well, or is
// stopped, which is no stall of the service. Neither is a collection of all garbage by the runtime, which is measured apart: it takes
// 30 to 90 ms of a heap of 100 MB, when the runtime wants. Times are milliseconds.
import { threadTimes } from '../../test/support/stalls.ts';

const TICK_MS = 5;
/** The message of a log line with a stall. */
export const STALL_LOGGED = 'the event loop stood still';

export interface Stall {
  cpuMs: number;
  wallMs: number;
  endedAt: number;
  /** The longest stall in which the runtime collected garbage, in CPU time: no part of `cpuMs`. */
  collectionMs: number;
}

export const NONE: Stall = { cpuMs: 0, wallMs: 0, endedAt: 0, collectionMs: 0 };

export interface Stalls {
  /** The longest since the last reset; `wallMs` with what the machine did meanwhile, `endedAt` since 1970. */
  longest(): Stall;
  /** The share of the time since the last reset in which the thread wanted to run, but had no core. */
  starved(): number;
  reset(): void;
  stop(): void;
}

/**
 * A function that tells whether the runtime has collected all garbage since its last call: only a collection of all takes an old
 * object. What has survived a collection is old, so that some are ready also for the next of two such collections in a row. They
 * are several, because a word on the stack that looks like an address keeps one alive.
 */
function collectionsSeen(): () => boolean {
  const several = () => Array.from({ length: 5 }, () => ({}));
  const referred = (objects: object[]) => objects.map((each) => new WeakRef(each));
  const isTaken = (references: WeakRef<object>[]) => references.some((each) => each.deref() === undefined);
  const fresh = referred(several());
  let kept: object[] = several();
  let old: WeakRef<object>[] = [];
  return () => {
    const isCollected = isTaken(old);
    if (isCollected || (old.length === 0 && isTaken(fresh))) {
      old = referred(kept);
      kept = several();
    }
    return isCollected;
  };
}

/** Measures the thread that calls it. */
export function measureStalls(): Stalls {
  let longest = NONE;
  let last = { wallMs: performance.now(), ...threadTimes() };
  const isCollected = collectionsSeen();
  let since = last;
  const timer = setInterval(() => {
    const now = { wallMs: performance.now(), ...threadTimes() };
    const wallMs = now.wallMs - last.wallMs;
    const cpuMs = Math.min(wallMs, now.cpuMs - last.cpuMs);
    if (isCollected()) longest = { ...longest, collectionMs: Math.max(longest.collectionMs, cpuMs) };
    else if (cpuMs > longest.cpuMs) longest = { ...longest, cpuMs, endedAt: Date.now() };
    longest = { ...longest, wallMs: Math.max(longest.wallMs, wallMs) };
    last = now;
  }, TICK_MS);
  timer.unref();
  return {
    longest: () => longest,
    starved: () => (last.waitedMs - since.waitedMs) / Math.max(1, last.wallMs - since.wallMs),
    reset: () => {
      longest = NONE;
      since = last;
    },
    stop: () => clearInterval(timer),
  };
}
