// Long computations in pieces: between two of them the event loop serves others. The time since the loop last turned
// counts, of all callers together, so that many short pieces in a row give way as well. Those that wait go on one in each
// turn, and the shares take turns: much work of one tenant delays a piece of another's by one piece.
// Contract: neighbours#fair-shares.
import { currentWork } from './work.ts';

/** A computation gives way after this time, in milliseconds. */
const SLICE_MS = 10;
let sliceStartedAt: number | null = null;
/** What waits for a turn, by share; the share that comes next is first. */
const waiting = new Map<string, (() => void)[]>();

/** Resolves after the event loop has turned; undefined when it is not due. Costs 0.1 µs. */
export function giveWay(): Promise<void> | undefined {
  if (sliceStartedAt === null && waiting.size === 0) {
    startSlice();
    return undefined;
  }
  const isDue = sliceStartedAt === null || performance.now() - sliceStartedAt >= SLICE_MS;
  return isDue ? turn() : undefined;
}

function turn(): Promise<void> {
  const { share } = currentWork();
  return new Promise((resolve) => {
    if (waiting.size === 0) afterOthers(resumeNext);
    const ofShare = waiting.get(share);
    if (ofShare === undefined) waiting.set(share, [resolve]);
    else ofShare.push(resolve);
  });
}

/** Two turns: the first one runs before timers and sockets that became due meanwhile. */
function afterOthers(run: () => void): void {
  setImmediate(() => setImmediate(run));
}

function resumeNext(): void {
  for (const [share, resolves] of waiting) {
    const resolve = resolves.shift();
    waiting.delete(share);
    if (resolves.length > 0) waiting.set(share, resolves);
    startSlice();
    resolve?.();
    break;
  }
  if (waiting.size > 0) afterOthers(resumeNext);
}

function startSlice(): void {
  if (sliceStartedAt !== null) return;
  sliceStartedAt = performance.now();
  setImmediate(endSlice);
}

function endSlice(): void {
  sliceStartedAt = null;
}
