// Processes records in parts that fit the bytes that may be read at once, although their sizes are known only after reading. A
// part that is too large wastes its bytes and a connection, so the next parts begin small, and grow while they fit.
// Failures: those of `take`, except that a part is too large. Contract: history#revert.
import { ServiceError } from '../errors.ts';

/** The factor by which a part grows after a part that was not too large. */
const GROWTH = 1.25;

/** These records take too many bytes to be read at once. */
export class PartTooLarge extends ServiceError {
  constructor() {
    super('SERVICE_UNAVAILABLE', 'the records are too large to be read at once');
  }
}

/**
 * Calls `take` for part after part; it rejects with `PartTooLarge` when a part of several records is too large. Resolves to
 * whether all records were taken before `isOver`.
 */
export async function inFittingParts<P, R>(
  parts: readonly P[],
  recordsOf: (part: P) => readonly R[],
  take: (records: readonly R[]) => Promise<void>,
  isOver: () => boolean,
): Promise<boolean> {
  let atOnce = Number.POSITIVE_INFINITY;
  for (const part of parts) {
    for (let left = recordsOf(part); left.length > 0; ) {
      if (isOver()) return false;
      const next = left.slice(0, atOnce);
      try {
        await take(next);
        left = left.slice(next.length);
        atOnce = Math.ceil(atOnce * GROWTH);
      } catch (error) {
        if (!(error instanceof PartTooLarge) || next.length === 1) throw error;
        atOnce = next.length >> 1;
      }
    }
  }
  return true;
}
