// Long computations in pieces: between two of them the event loop serves others. The time since the loop last turned
// counts, of all callers together, so that many short pieces in a row give way as well. Those that wait go on one in each
// turn, and the shares take turns: much work of one tenant delays a piece of another's by one piece. While other tenants
// are active, a tenant rests after a piece for as long as the piece took, so that it has at most half of the loop's time.
// Strangers are one share together.
// Contract: neighbours#fair-shares.
import { areOthersActive, currentWork, isStrangers, STRANGERS } from './work.ts';

/** A computation gives way after this time, in milliseconds. */
const SLICE_MS = 4;
let sliceStartedAt: number | null = null;

/** What waits for a turn, of one share. */
interface Waiting {
  resolves: (() => void)[];
  /** When its next piece may start. */
  startsAt: number;
}
/** By share; the share that comes next is first. */
const waiting = new Map<string, Waiting>();
let isScheduled = false;

/**
 * Resolves after the event loop has turned; undefined when it is not due. Call it before a step, so that many that are due
 * at once take turns too. `share` is that of the current work, unless it is known otherwise. Costs 0.1 µs.
 */
export function giveWay(share?: string): Promise<void> | undefined {
  if (sliceStartedAt === null && waiting.size === 0) {
    startSlice();
    return undefined;
  }
  const now = performance.now();
  const isDue = sliceStartedAt === null || now - sliceStartedAt >= SLICE_MS;
  return isDue ? turn(share ?? currentWork().share, now) : undefined;
}

function turn(name: string, now: number): Promise<void> {
  const share = isStrangers(name) ? STRANGERS : name;
  const tookMs = sliceStartedAt === null ? 0 : now - sliceStartedAt;
  const restMs = areOthersActive(share) ? tookMs : 0;
  return new Promise((resolve) => {
    const ofShare = waiting.get(share);
    if (ofShare === undefined) waiting.set(share, { resolves: [resolve], startsAt: now + restMs });
    else {
      ofShare.resolves.push(resolve);
      ofShare.startsAt = Math.max(ofShare.startsAt, now + restMs);
    }
    schedule();
  });
}

/** Two turns: the first one runs before timers and sockets that became due meanwhile. */
function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  const restMs = earliest() - performance.now();
  if (restMs >= 1) setTimeout(resumeNext, restMs);
  else setImmediate(() => setImmediate(resumeNext));
}

function earliest(): number {
  let at = Number.POSITIVE_INFINITY;
  for (const { startsAt } of waiting.values()) at = Math.min(at, startsAt);
  return at;
}

function resumeNext(): void {
  isScheduled = false;
  const now = performance.now();
  for (const [share, ofShare] of waiting) {
    if (ofShare.startsAt - now >= 1) continue;
    const resolve = ofShare.resolves.shift();
    waiting.delete(share);
    if (ofShare.resolves.length > 0) waiting.set(share, ofShare);
    startSlice();
    resolve?.();
    break;
  }
  if (waiting.size > 0) schedule();
}

function startSlice(): void {
  if (sliceStartedAt !== null) return;
  sliceStartedAt = performance.now();
  setImmediate(endSlice);
}

function endSlice(): void {
  sliceStartedAt = null;
}
