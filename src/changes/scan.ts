// Counts what a page of the feed or of a history has looked at. Events that are not shown count too, so that a page ends even
// when the caller sees none of them. Times are milliseconds.
// Contract: feed#guarantee, history#history, neighbours#fair-shares.
import type { StepSize } from '../events/feed.ts';
import { LIMITS } from '../limits.ts';
import { holdBytesWaiting } from '../runtime/large-calls.ts';

const { scannedMax, scannedBytes, stepBytes, streamBytes } = LIMITS.changes;

export class Scan {
  readonly #startedAt = performance.now();
  #events = 0;
  #bytes = 0;

  /** `maxMs` is how long the page may look for events. */
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
   * How much the next step may read, at most `bytesMax`. The first step is small. A call that reads more steps first waits for
   * a place among large calls: a statement that turns out to need a place is cut off, with its connection.
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
