// Long computations in pieces: between two of them the event loop serves others. The time since the loop last turned
// counts, of all callers together, so that many short pieces in a row give way as well.
// Contract: neighbours#fair-shares.

/** A computation gives way after this time, in milliseconds. */
const SLICE_MS = 10;
let sliceStartedAt: number | null = null;

/** Resolves after the event loop has turned; undefined when it is not due. Costs 0.1 µs. */
export function giveWay(): Promise<void> | undefined {
  if (sliceStartedAt === null) {
    startSlice();
    return undefined;
  }
  return performance.now() - sliceStartedAt < SLICE_MS ? undefined : turn();
}

/** Two turns: the first one runs before timers and sockets that became due meanwhile. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  startSlice();
}

function startSlice(): void {
  if (sliceStartedAt !== null) return;
  sliceStartedAt = performance.now();
  setImmediate(endSlice);
}

function endSlice(): void {
  sliceStartedAt = null;
}
