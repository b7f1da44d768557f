// How much a quiet tenant suffers from busy ones, in a model: processors that all running statements share, two pools of
// connections, and its own clock. The attacking tenants have their next statement ready whenever one ends. A model is used
// because on a real server the results depend on the machine. The seed of a failed run is in its title.
// Contract: neighbours#fair-shares.
import { describe, expect, test } from 'bun:test';
import { FairQueue } from '../src/runtime/fair-queue.ts';
import { SERVICE_SHARE, type Ticket } from '../src/runtime/fair-share.ts';
import { LongWork } from '../src/runtime/long-work.ts';
import { Congestion, PROBE_MS } from '../src/runtime/postgres/congestion.ts';
import { LongStatements } from '../src/runtime/postgres/long-statements.ts';
import { Throttle } from '../src/runtime/throttle.ts';
import { seededRandom } from './support/random.ts';

const STEP_MS = 0.25;
/** How often the pools look whether a rest has ended. */
const RECHECK_MS = 10;
const QUIET = 'quiet';
/** Statements of the tenants that attack: processor time, the pool's connections, and how many are sent at once. */
const ATTACKS = [
  { share: 'lists', needMs: 1_750, slots: 8, atOnce: 24 },
  { share: 'aggregates', needMs: 165, slots: 4, atOnce: 20 },
  { share: 'imports', needMs: 75, slots: 8, atOnce: 2 },
  { share: 'bulk', needMs: 550, slots: 8, atOnce: 2 },
  { share: 'rules', needMs: 9, slots: 8, atOnce: 4 },
  { share: SERVICE_SHARE, needMs: 3, slots: 8, atOnce: 2 },
  { share: 'creates', needMs: 4, slots: 8, atOnce: 2 },
] as const;

interface Statement {
  share: string;
  pool: ModelPool;
  needMs: number;
  sentAt: number;
  startedAt: number;
  ended(): void;
}

interface ModelPool {
  queue: FairQueue<Statement>;
  long: LongStatements;
}

class Model {
  nowMs = 0;
  readonly quietMs: number[] = [];
  readonly ended = new Map<string, number>();
  readonly #running = new Set<Ticket<Statement>>();
  readonly #congestion = new Congestion();
  readonly #throttle = new Throttle(() => this.#congestion.admitted);
  readonly #pools = new Map<number, ModelPool>();

  constructor(
    private readonly processors: number,
    private readonly random: () => number,
  ) {
    const work = new LongWork(2, 6);
    const throttle = this.#throttle;
    for (const slots of [8, 4]) {
      const wake = (): void => this.#dispatch(pool);
      const { admitted, delayMs } = {
        admitted: () => this.#congestion.admitted,
        delayMs: () => this.#congestion.delayMs,
      };
      const long = { areOthersActive: () => true, admitted, delayMs, throttle, work, wake };
      const queue = new FairQueue<Statement>({ slots, operatorSlots: 1, shareWaitingMax: 100, long });
      const pool = { queue, long: new LongStatements() };
      this.#pools.set(slots, pool);
    }
    for (const { share, needMs, slots, atOnce } of ATTACKS) {
      const next = (): void => this.#send(share, slots, needMs * (0.8 + 0.4 * random()), next);
      for (let i = 0; i < atOnce; i++) next();
    }
  }

  run(ms: number): void {
    let [quietAt, probeAt, recheckAt] = [0, PROBE_MS, 0];
    while (this.nowMs < ms) {
      this.nowMs += STEP_MS;
      if (this.nowMs >= quietAt) {
        quietAt += 1_000 / 60;
        const sentAt = this.nowMs;
        this.#send(QUIET, 8, 0.6 + 1.6 * this.random(), () => void this.quietMs.push(this.nowMs - sentAt));
      }
      if (this.nowMs >= probeAt) {
        probeAt += PROBE_MS;
        this.#probe();
      }
      if (this.nowMs >= recheckAt) {
        recheckAt += RECHECK_MS;
        for (const pool of this.#pools.values()) this.#dispatch(pool);
      }
      const part = Math.min(1, this.processors / Math.max(1, this.#running.size));
      for (const ticket of [...this.#running]) {
        ticket.item.needMs -= STEP_MS * part;
        if (ticket.item.needMs <= 0) this.#end(ticket);
      }
    }
  }

  #probe(): void {
    const waiting = Math.max(0, this.#running.size + 1 - this.processors);
    this.#congestion.observe(0.5 + 3 * waiting * this.random());
    for (const ticket of this.#running) {
      const heldMs = this.nowMs - ticket.item.startedAt;
      if (heldMs >= PROBE_MS) ticket.item.pool.queue.charge(ticket, heldMs);
    }
  }

  #send(share: string, slots: number, needMs: number, ended: () => void): void {
    const pool = this.#pools.get(slots) as ModelPool;
    const statement = { share, pool, needMs, sentAt: this.nowMs, startedAt: 0, ended };
    pool.queue.enter(share, false, statement, share !== SERVICE_SHARE && pool.long.isLong(share, share));
    this.#dispatch(pool);
  }

  #dispatch({ queue }: ModelPool): void {
    const next = () =>
      queue.start((_, { name }) => (this.#throttle.isResting(name, this.nowMs) ? Number.POSITIVE_INFINITY : 0));
    for (let ticket = next(); ticket !== undefined; ticket = next()) {
      ticket.item.startedAt = this.nowMs;
      this.#running.add(ticket);
    }
  }

  #end(ticket: Ticket<Statement>): void {
    const { share, pool, startedAt, ended } = ticket.item;
    const heldMs = this.nowMs - startedAt;
    this.#running.delete(ticket);
    this.ended.set(share, (this.ended.get(share) ?? 0) + 1);
    pool.long.ended(share, share, heldMs - this.#congestion.delayMs);
    pool.queue.end(ticket, heldMs);
    this.#throttle.ran(ticket.share.owner, ticket.share.name, heldMs, this.nowMs);
    this.#dispatch(pool);
    ended();
  }
}

describe.each([1, 2, 3])('a quiet tenant beside six that attack (seed %d)', (seed) => {
  // Less than one processor: other processes of the machine use the rest.
  test.each([
    { processors: 2, middleMs: 8, p99Ms: 25 },
    { processors: 1, middleMs: 15, p99Ms: 200 },
    { processors: 0.6, middleMs: 50, p99Ms: 1_700 },
  ])(
    'with $processors processors waits $middleMs ms in the middle and $p99Ms ms at p99, at most',
    ({ processors, middleMs, p99Ms }) => {
      const model = new Model(processors, seededRandom(seed));
      model.run(30_000);
      const sorted = model.quietMs.sort((a, b) => a - b);
      const at = (part: number): number => sorted[Math.floor(sorted.length * part)] as number;
      expect(at(0.5)).toBeLessThanOrEqual(middleMs);
      expect(at(0.99)).toBeLessThanOrEqual(p99Ms);
      // No tenant is kept from its work.
      for (const { share } of ATTACKS) expect(model.ended.get(share) ?? 0).toBeGreaterThan(0);
    },
  );
});
