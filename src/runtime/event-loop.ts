// Runs long computations in pieces, and lets the event loop serve others between two pieces. The time since the loop last turned counts
// for all callers together, so a series of many short pieces yields as well. One waiting computation resumes in each turn, and the shares
// take turns: a lot of work of one tenant delays a piece of another tenant by one piece. While other tenants are active, a tenant rests
// after a piece for as long as the piece took, so it has at most half of the loop's time. All strangers together are one share.
// Contract: neighbours#fair-shares.
import { areOthersActive, currentWork, isStrangers, STRANGERS } from './work.ts';

/**
 * A computation yields after this time, in milliseconds. Beside texts of combining marks, another tenant's requests have a p50 of 4.9
 * to 5.2 and a p99 of 17 to 26; with 4 ms, a p50 of 6.6 to 7.2 and a p99 of 35 to 49. An import is not slower.
 */
const SLICE_MS = 1;
let sliceStartedAt: number | null = null;
/** The share whose piece began the slice. */
let sliceShare = '';

/** The pieces of one share that wait for a turn. */
interface Waiting {
  resolves: (() => void)[];
  /** When the share's next piece may start. */
  startsAt: number;
}
/** By share; the share whose turn is next comes first. */
const waiting = new Map<string, Waiting>();
/** When the next piece resumes; null when none waits. */
let resumesAt: number | null = null;
let restTimer: ReturnType<typeof setTimeout> | undefined;

/**
 * Resolves after the event loop has turned; undefined when the slice still has time. Call it before a step, so that many computations
 * that are due at once take turns too. `share` is the share of the current work by default. Costs 0.1 µs.
 */
export function giveWay(share?: string): Promise<void> | undefined {
  if (sliceStartedAt === null) {
    const own = loopShare(share);
    // Waiting pieces of the same share go first. Pieces of other shares resume one in each turn anyway.
    if (!waiting.has(own)) {
      startSlice(own);
      return undefined;
    }
  }
  const now = performance.now();
  const isDue = sliceStartedAt === null || now - sliceStartedAt >= SLICE_MS;
  return isDue ? turn(loopShare(share), now) : undefined;
}

/** By share: the steps that wait for the share's turn. */
const steps = new Map<string, (() => void)[]>();

/** Runs a short step in a turn of the share: at once when the slice still has time, and after its earlier steps. It must not throw. */
export function inTurn(share: string, step: () => void): void {
  const earlier = steps.get(share);
  if (earlier !== undefined) {
    earlier.push(step);
    return;
  }
  const turn = giveWay(share);
  if (turn === undefined) {
    step();
    return;
  }
  const own = [step];
  steps.set(share, own);
  void runInTurns(share, own, turn);
}

async function runInTurns(share: string, own: (() => void)[], first: Promise<void>): Promise<void> {
  let turn: Promise<void> | undefined = first;
  while (own.length > 0) {
    if (turn !== undefined) await turn;
    own.shift()?.();
    turn = own.length > 0 ? giveWay(share) : undefined;
  }
  steps.delete(share);
}

/** In characters: a shorter condition is parsed in 20 µs. */
const LONG_CONDITION = 250;

/** Like `giveWay`, before a condition of this length is parsed: a long one takes 0.3 ms, and hundreds may be parsed at once. */
export function giveWayToRead(length: number): Promise<void> | undefined {
  return length > LONG_CONDITION ? giveWay() : undefined;
}

function loopShare(name: string = currentWork().share): string {
  return isStrangers(name) ? STRANGERS : name;
}

function turn(share: string, now: number): Promise<void> {
  // A share does not rest for time that another share took.
  const tookMs = sliceStartedAt === null || sliceShare !== share ? 0 : now - sliceStartedAt;
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

/**
 * Waits two turns: the first one runs before timers and sockets that became due meanwhile. The rest of one share does not delay
 * another: a share that arrives during it resumes before it ends.
 */
function schedule(): void {
  const at = earliest();
  if (resumesAt !== null && at >= resumesAt) return;
  // Without a timer, the next piece resumes in the next turns, and nothing can be earlier.
  if (resumesAt !== null && restTimer === undefined) return;
  clearTimeout(restTimer);
  restTimer = undefined;
  resumesAt = at;
  const restMs = at - performance.now();
  if (restMs >= 1) restTimer = setTimeout(resumeNext, restMs);
  else setImmediate(() => setImmediate(resumeNext));
}

function earliest(): number {
  let at = Number.POSITIVE_INFINITY;
  for (const { startsAt } of waiting.values()) at = Math.min(at, startsAt);
  return at;
}

function resumeNext(): void {
  restTimer = undefined;
  resumesAt = null;
  const now = performance.now();
  for (const [share, ofShare] of waiting) {
    if (ofShare.startsAt - now >= 1) continue;
    const resolve = ofShare.resolves.shift();
    waiting.delete(share);
    if (ofShare.resolves.length > 0) waiting.set(share, ofShare);
    startSlice(share);
    resolve?.();
    break;
  }
  if (waiting.size > 0) schedule();
}

function startSlice(share: string): void {
  if (sliceStartedAt !== null) return;
  sliceStartedAt = performance.now();
  sliceShare = share;
  setImmediate(endSlice);
}

function endSlice(): void {
  sliceStartedAt = null;
}
