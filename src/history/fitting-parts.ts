// Takes records in parts that fit the bytes that may be read at once, though their sizes are not known before they are read. A
// part that is too large costs its bytes and a connection: those after it begin small, and grow while they fit.
// Failures: those of the taking, except that a part is too large. Contract: history#revert.
import { ServiceError } from '../errors.ts';

/** How many more records are taken together after a part that was not too large. */
const GROWTH = 1.25;

/** These records take too many bytes to be read at once. */
export class PartTooLarge extends ServiceError {
  constructor() {
    super('SERVICE_UNAVAILABLE', 'the records are too large to be read at once');
  }
}

/** `take` rejects with `PartTooLarge`, but not for a single record. Resolves to whether all were taken before `isOver`. */
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
