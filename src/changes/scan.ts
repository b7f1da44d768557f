// What a page of the feed or of a history has looked at so far: events that are not shown count too, so that a page ends although
// the caller sees none of them. Times are milliseconds.
// Contract: feed#guarantee, history#history, neighbours#fair-shares.
import type { StepSize } from '../events/feed.ts';
import { LIMITS } from '../limits.ts';
import { holdBytesWaiting } from '../runtime/large-calls.ts';

const { scannedMax, scannedBytes, stepBytes, streamBytes } = LIMITS.changes;

export class Scan {
  readonly #startedAt = performance.now();
  #events = 0;
  #bytes = 0;

  /** `maxMs` is how long it may look. */
  constructor(private readonly maxMs: number) {}

  /** Counts a step: its events, and the bytes received for them. */
  add(events: number, bytes: number): void {
    this.#events += events;
    this.#bytes += bytes;
  }

  /** The bytes received so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * What the next step may read, `bytesMax` at most. The first one is small. A call that reads on waits for its place first: a
   * statement that comes to need one is cut off, with its connection.
   */
  async nextStep(bytesMax: number = stepBytes): Promise<Pick<StepSize, 'bytes' | 'atLeast'>> {
    if (this.#bytes === 0) return { bytes: Math.min(streamBytes, bytesMax), atLeast: 0 };
    await holdBytesWaiting(stepBytes);
    return { bytes: Math.min(stepBytes, bytesMax), atLeast: 1 };
  }

  /** Whether the page ends here, however little it shows. */
  get isEnough(): boolean {
    return (
      this.#events >= scannedMax || this.#bytes >= scannedBytes || performance.now() - this.#startedAt >= this.maxMs
    );
  }
}
