// Decides how much work the database may have at once, so that the statements of quiet tenants stay quick. While long statements run or
// several tenants are active, a probe (`select 1`) measures every 100 ms how long a statement takes that needs no time itself: it waits for
// the same processors as every other statement. When the probe is late, fewer long statements run, and fewer statements of the tenants
// that have used the most time. When it is quick again, more run. The time in which the event loop may have kept its response waiting does not
// count: beside a tenant that keeps only the loop busy, the quiet ones would use most of the database's time, and would be throttled.
// Times are milliseconds. Contract: neighbours#fair-shares.
import { areSeveralActive, detached } from '../work.ts';
import type { Pool } from './pool.ts';

/** How often the probe runs. */
export const PROBE_MS = 100;
/** How often the event loop is seen to turn while a probe runs. */
const TURN_MS = 1;
/**
 * A probe that takes this much longer than the quickest one is late. Beside eight attacks by one tenant, another tenant's requests had
 * a p99 of 74 ms with 4, and of 48 with 2, where the attacker got as much done.
 */
const LATE_MS = 2;
/** The quickest probe is forgotten slowly, since the network and the server change. */
const FORGET = 1.01;
const FORGET_DELAY = 0.8;
/**
 * A late probe halves the admitted part, and a quick probe adds 0.02: four of five probes are quick even while statements wait for
 * 50 ms. Beside eight attacks by a tenant each, other requests had a p99 of 38 to 47 ms, and of 51 and 53 with 0.7 and 0.05.
 */
const LESS = 0.5;
const MORE = 0.02;

export class Congestion {
  #quickestMs = Number.POSITIVE_INFINITY;
  #admitted = 1;
  #delayMs = 0;

  /** The part of the slots that long work, and tenants that have used the most time, may use, from 0 to 1. */
  get admitted(): number {
    return this.#admitted;
  }

  /** How much longer a statement takes now than on a quiet server: the longest recent probe delay, forgotten within a second. */
  get delayMs(): number {
    return this.#delayMs;
  }

  /** Notes the time of a probe, and how much of it the response may have waited for the event loop, not for the database. */
  observe(probeMs: number, loopMs = 0): void {
    this.#quickestMs = Math.min(this.#quickestMs * FORGET, probeMs);
    const lateMs = probeMs - this.#quickestMs;
    this.#delayMs = Math.max(lateMs, this.#delayMs * FORGET_DELAY);
    const isLate = lateMs - loopMs > LATE_MS;
    this.#admitted = isLate ? this.#admitted * LESS : Math.min(1, this.#admitted + MORE);
  }
}

/**
 * Probes while several tenants are active or these pools run long work. It also probes when only one call is admitted, so that more
 * can be admitted again. Returns a function that ends it.
 */
export function probe(control: Pool, congestion: Congestion, pools: readonly Pool[]): () => void {
  const isNeeded = (): boolean => areSeveralActive() || pools.some(({ longRunning }) => longRunning > 0);
  let isRunning = false;
  const run = async (): Promise<void> => {
    if (isRunning || !isNeeded()) return;
    isRunning = true;
    const startedAt = performance.now();
    let turnedAt = startedAt;
    const turns = setInterval(() => {
      turnedAt = performance.now();
    }, TURN_MS);
    // An outage of the database is not congestion; the calls themselves report it.
    await detached(() => control.lease((lease) => lease.run('select 1', []))).then(
      () => {
        const now = performance.now();
        congestion.observe(now - startedAt, Math.max(0, now - turnedAt - TURN_MS));
      },
      () => undefined,
    );
    clearInterval(turns);
    isRunning = false;
  };
  const clock = setInterval(() => void run(), PROBE_MS);
  clock.unref?.();
  return () => clearInterval(clock);
}
