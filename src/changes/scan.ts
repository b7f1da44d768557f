// What a page of the feed or of a history has looked at so far: events that are not shown count too, so that a page ends although
// the caller sees none of them. Times are milliseconds.
// Contract: feed#guarantee, history#history, neighbours#fair-shares.
import { LIMITS } from '../limits.ts';

const { scannedMax, scannedBytes } = LIMITS.changes;

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

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether the page ends here, however little it shows. */
  get isEnough(): boolean {
    return (
      this.#events >= scannedMax || this.#bytes >= scannedBytes || performance.now() - this.#startedAt >= this.maxMs
    );
  }
}
