// How much long work the database may have at once, so that short statements stay quick beside it. While long statements
// run, a probe (`select 1`) measures every 100 ms how long a statement takes that needs no time itself: it waits for the
// same processors, and for the same event loop, as every other statement. When it is late, fewer long statements run; when
// it is quick again, more do. The database may be on this machine or another, with any number of processors.
// Times are milliseconds. Contract: neighbours#fair-shares.

/** How often the probe runs. */
export const PROBE_MS = 100;
/** A probe that takes so much longer than the quickest is late. */
const LATE_MS = 6;
/** The network and the server change: the quickest probe is forgotten slowly. */
const FORGET = 1.01;
const FORGET_DELAY = 0.8;
const LESS = 0.7;
const MORE = 0.05;

export class Congestion {
  #quickestMs = Number.POSITIVE_INFINITY;
  #admitted = 1;
  #delayMs = 0;

  /** The part of the slots for long work that may be used, from 0 to 1. */
  get admitted(): number {
    return this.#admitted;
  }

  /** What a statement takes longer now than on a quiet server: the most that a late probe did, which is forgotten in a second. */
  get delayMs(): number {
    return this.#delayMs;
  }

  /** Takes the time of a probe. */
  observe(probeMs: number): void {
    this.#quickestMs = Math.min(this.#quickestMs * FORGET, probeMs);
    const lateMs = probeMs - this.#quickestMs;
    this.#delayMs = Math.max(lateMs, this.#delayMs * FORGET_DELAY);
    const isLate = lateMs > LATE_MS;
    this.#admitted = isLate ? this.#admitted * LESS : Math.min(1, this.#admitted + MORE);
  }
}
