// The fair queue against a model: random shares, costs, cancellations and operators, step by step with its own clock. The seed
// of a failed run is in its message.
import { describe, expect, test } from 'bun:test';

import { FairQueue } from '../src/runtime/fair-queue.ts';
import type { Ticket } from '../src/runtime/fair-share.ts';
import { LongWork } from '../src/runtime/long-work.ts';
import { Throttle } from '../src/runtime/throttle.ts';
import { seededRandom } from './support/random.ts';

const SLOTS = 8;
const SHARE_SLOTS = 4;
const OPERATOR_SLOTS = 1;
const SHARE_WAITING_MAX = 9;

interface Item {
  share: string;
  isOperator: boolean;
  costMs: number;
}

function newQueue(options: Partial<ConstructorParameters<typeof FairQueue>[0]> = {}): FairQueue<Item> {
  const defaults = {
    slots: SLOTS,
    operatorSlots: OPERATOR_SLOTS,
    shareWaitingMax: SHARE_WAITING_MAX,
  };
  return new FairQueue<Item>({ ...defaults, ...options });
}

/** Whether a share has one of eight connections: `share 16`, not `share 17`. */
function hasEighth(share: string): boolean {
  return Number(share.slice('share '.length)) % 8 === 0;
}

/** Runs a queue in simulated time. */
class Simulation {
  nowMs = 0;
  readonly running = new Map<Ticket<Item>, number>();
  readonly hadMs = new Map<string, number>();

  constructor(readonly queue: FairQueue<Item>) {}

  enter(item: Item): Ticket<Item> | null {
    return this.queue.enter(item.share, item.isOperator, item);
  }

  start(): Ticket<Item>[] {
    const started: Ticket<Item>[] = [];
    for (let ticket = this.queue.start(); ticket !== undefined; ticket = this.queue.start()) {
      this.running.set(ticket, this.nowMs + ticket.item.costMs);
      started.push(ticket);
    }
    return started;
  }

  /** Advances to the end of the ticket that ends next. */
  endNext(): Ticket<Item> | undefined {
    const [first] = [...this.running].sort(([, a], [, b]) => a - b);
    if (first === undefined) return undefined;
    const [ticket, endsAt] = first;
    this.nowMs = endsAt;
    this.running.delete(ticket);
    const { share, costMs } = ticket.item;
    this.hadMs.set(share, (this.hadMs.get(share) ?? 0) + costMs);
    this.queue.end(ticket, costMs);
    return ticket;
  }

  held(isOf: (item: Item) => boolean): number {
    return [...this.running.keys()].filter(({ item }) => isOf(item)).length;
  }
}

describe('the fair queue', () => {
  test.each([1, 2, 3, 4, 5])(
    'of thousands of random steps, nothing is lost or run twice, and no share holds more than half (seed %d)',
    (seed) => {
      const random = seededRandom(seed);
      const simulation = new Simulation(newQueue());
      const { queue } = simulation;
      const waiting = new Set<Ticket<Item>>();
      const seen = new Set<Ticket<Item>>();
      const started = (): void => {
        for (const ticket of simulation.start()) {
          expect(waiting.delete(ticket)).toBe(true);
          expect(seen.has(ticket)).toBe(false);
          seen.add(ticket);
        }
      };
      for (let step = 0; step < 5_000; step++) {
        const dice = random();
        if (dice < 0.55) {
          const isOperator = random() < 0.05;
          const share = `t${Math.floor(random() ** 2 * 12)}`;
          const ticket = simulation.enter({ share, isOperator, costMs: random() < 0.1 ? 500 : random() * 10 });
          if (ticket !== null) waiting.add(ticket);
        } else if (dice < 0.65) {
          const [cancelled] = [...waiting].slice(Math.floor(random() * waiting.size));
          if (cancelled !== undefined) {
            queue.end(cancelled, 0);
            queue.end(cancelled, 0);
            waiting.delete(cancelled);
          }
        } else simulation.endNext();
        const { startable } = queue;
        const before = waiting.size;
        started();
        // The order of starts decides about the last slot.
        expect(Math.abs(before - waiting.size - startable)).toBeLessThanOrEqual(1);
        expect(startable > 0).toBe(before > waiting.size);
        expect(queue.length).toBe(waiting.size);
        expect(new Set(queue.waiting())).toEqual(waiting);
        expect(queue.running).toBe(simulation.running.size);
        for (const { item } of simulation.running.keys()) {
          const limit = item.isOperator ? SHARE_SLOTS + OPERATOR_SLOTS : SHARE_SLOTS;
          const isSame = (other: Item): boolean =>
            item.isOperator ? other.isOperator : !other.isOperator && other.share === item.share;
          expect(simulation.held(isSame)).toBeLessThanOrEqual(limit);
        }
        expect(simulation.held(({ isOperator }) => !isOperator)).toBeLessThanOrEqual(SLOTS);
        expect(simulation.running.size).toBeLessThanOrEqual(SLOTS + OPERATOR_SLOTS);
      }
      while (simulation.running.size > 0) {
        simulation.endNext();
        started();
      }
      expect([waiting.size, queue.length, queue.running, queue.size]).toEqual([0, 0, 0, 0]);
    },
  );

  test.each([11, 12, 13])(
    'shares that always have work waiting get the same time, however costly their work is (seed %d)',
    (seed) => {
      const random = seededRandom(seed);
      const simulation = new Simulation(newQueue());
      const shares = [5, 5, 10, 20, 100, 400].map((costMs, i) => ({ share: `t${i}`, costMs }));
      while (simulation.nowMs < 60_000) {
        for (const { share, costMs } of shares) {
          let waiting = 0;
          while (waiting < SHARE_WAITING_MAX) {
            const cost = costMs * (0.5 + random());
            waiting = simulation.enter({ share, isOperator: false, costMs: cost })?.share.waiting ?? SHARE_WAITING_MAX;
          }
        }
        simulation.start();
        simulation.endNext();
      }
      const had = shares.map(({ share }) => simulation.hadMs.get(share) ?? 0);
      // A share is ahead or behind by at most what its slots may run at once.
      expect(Math.max(...had) - Math.min(...had)).toBeLessThan(2 * SHARE_SLOTS * 600);
    },
  );

  test('a share that arrives while another holds its half and waits starts at once', () => {
    const simulation = new Simulation(newQueue());
    for (let i = 0; i < 40; i++) simulation.enter({ share: 'heavy', isOperator: false, costMs: 4_000 });
    expect(simulation.start()).toHaveLength(SHARE_SLOTS);
    simulation.enter({ share: 'light', isOperator: false, costMs: 1 });
    expect(simulation.start().map(({ item }) => item.share)).toEqual(['light']);
  });

  test.each([2, 3, 4, 6, 8])(
    'of %d slots, one is free for a share that holds none, however many others wait',
    (slots) => {
      const simulation = new Simulation(newQueue({ slots }));
      const heavy = Array.from({ length: Math.max(1, slots >> 1) }, (_, i) => `heavy ${i}`);
      const enter = (share: string) => simulation.enter({ share, isOperator: false, costMs: 4_000 });
      const held = () => heavy.map((name) => simulation.held(({ share }) => share === name));
      // One after the other: each takes all that it may.
      for (const share of heavy.slice(0, 2)) {
        for (let i = 0; i < SHARE_WAITING_MAX; i++) enter(share);
        simulation.start();
      }
      expect(Math.max(...held())).toBeLessThanOrEqual(Math.max(1, slots >> 1));
      enter('light');
      const canStart = slots > 2 || heavy.length < 2;
      expect(simulation.start().map(({ item }) => item.share)).toEqual(canStart ? ['light'] : []);
    },
  );

  test('a share whose tickets run long has a quarter of the slots while others are active', () => {
    let areOthersActive = false;
    const simulation = new Simulation(newQueue({ long: { areOthersActive: () => areOthersActive } }));
    const enter = () => simulation.enter({ share: 'long', isOperator: false, costMs: 4_000 });
    for (let i = 0; i < SHARE_WAITING_MAX; i++) enter();
    expect(simulation.start()).toHaveLength(SHARE_SLOTS);
    for (let i = 0; i < SHARE_SLOTS; i++) simulation.endNext();
    areOthersActive = true;
    expect(simulation.start()).toHaveLength(SLOTS / 4);
    areOthersActive = false;
    expect(simulation.start()).toHaveLength(SHARE_SLOTS - SLOTS / 4);
  });

  test('a quarter of the slots is kept for shares whose tickets are short', () => {
    const simulation = new Simulation(newQueue({ long: { areOthersActive: () => false } }));
    const enter = (share: string, costMs: number) => simulation.enter({ share, isOperator: false, costMs });
    const shares = Array.from({ length: SLOTS }, (_, at) => `long ${at}`);
    for (const share of shares) enter(share, 4_000);
    const running = simulation.start();
    expect(running).toHaveLength(SLOTS);
    for (const ticket of running) simulation.queue.charge(ticket, 3_000);
    for (const share of shares) enter(share, 4_000);
    for (let i = 0; i < SLOTS; i++) simulation.endNext();
    const isLong = ({ item }: Ticket<Item>) => item.share.startsWith('long');
    expect(simulation.start().filter(isLong)).toHaveLength(SLOTS - SLOTS / 4);
    for (const share of ['a', 'b', 'c']) enter(share, 1);
    expect(simulation.start().map(({ item }) => item.share)).toEqual(['a', 'b']);
  });

  test('of long tickets, only the admitted part runs, and always one', () => {
    let admitted = 1;
    const simulation = new Simulation(newQueue({ long: { areOthersActive: () => true, admitted: () => admitted } }));
    const enter = (share: string) => simulation.enter({ share, isOperator: false, costMs: 4_000 });
    const shares = Array.from({ length: SLOTS }, (_, at) => `long ${at}`);
    for (const share of shares) enter(share);
    for (const ticket of simulation.start()) simulation.queue.charge(ticket, 3_000);
    for (const share of shares) enter(share);
    for (let i = 0; i < SLOTS; i++) simulation.endNext();
    admitted = 0;
    expect(simulation.start()).toHaveLength(1);
    admitted = 0.5;
    expect(simulation.start()).toHaveLength((SLOTS - SLOTS / 4) / 2 - 1);
  });

  test('while slots are admitted in part, a share that has had more than others has fewer, and one at least', () => {
    let admitted = 1;
    const long = { areOthersActive: () => true, admitted: () => admitted, throttle: new Throttle(() => admitted) };
    const queue = newQueue({ long });
    const running: Ticket<Item>[] = [];
    /** Lets each share end some of its tickets and start others; returns how many each then runs. */
    const go = (): [heavy: number, light: number] => {
      for (let i = 0; i < 50; i++) {
        for (const [share, costMs] of [
          ['heavy', 60],
          ['light', 20],
        ] as const) {
          queue.enter(share, false, { share, isOperator: false, costMs });
          const at = running.findIndex((ticket) => ticket.item.share === share);
          const [ended] = at < 0 ? [] : running.splice(at, 1);
          if (ended !== undefined) queue.end(ended, ended.item.costMs);
          for (let ticket = queue.start(); ticket !== undefined; ticket = queue.start()) running.push(ticket);
        }
      }
      const count = (share: string): number => running.filter((ticket) => ticket.item.share === share).length;
      return [count('heavy'), count('light')];
    };
    for (let i = 0; i < SLOTS; i++) queue.enter('heavy', false, { share: 'heavy', isOperator: false, costMs: 60 });
    for (let i = 0; i < SLOTS; i++) queue.enter('light', false, { share: 'light', isOperator: false, costMs: 20 });
    const [heavy, light] = go();
    admitted = 0.5;
    const [heavyInPart, lightInPart] = go();
    admitted = 0;
    const [heavyLast, lightLast] = go();
    expect([heavy, light]).toEqual([3, 3]);
    expect(heavyInPart).toBeLessThan(heavy);
    expect(lightInPart).toBeGreaterThanOrEqual(light);
    expect([heavyLast, lightLast]).toEqual([1, SHARE_SLOTS]);
  });

  test('the long tickets of a share count in all queues of the same processors, while others are active', () => {
    let areOthersActive = true;
    const long = { areOthersActive: () => areOthersActive, admitted: () => 0.2, work: new LongWork(4, 40) };
    const [one, other] = [new Simulation(newQueue({ long })), new Simulation(newQueue({ long }))];
    for (const simulation of [one, other]) {
      for (let i = 0; i < 3; i++) simulation.enter({ share: 'long', isOperator: false, costMs: 4_000 });
    }
    for (const ticket of one.start()) one.queue.charge(ticket, 3_000);
    const [first] = other.start();
    if (first !== undefined) other.queue.end(first, 4_000);
    expect(other.start()).toEqual([]);
    areOthersActive = false;
    expect(other.start()).toHaveLength(1);
    expect(long.work.of('long')).toBe(3);
    while (one.endNext() !== undefined || other.endNext() !== undefined);
    expect(long.work.of('long')).toBe(0);
  });

  test('of the long tickets of all queues, one runs while no more are admitted, and a further one of a tenant that has had little', () => {
    const work = new LongWork(4, 8);
    const woken: string[] = [];
    const queueNamed = (name: string) =>
      new Simulation(
        newQueue({ long: { areOthersActive: () => true, admitted: () => 0, work, wake: () => woken.push(name) } }),
      );
    const [one, other] = [queueNamed('one'), queueNamed('other')];
    const enter = ({ queue }: Simulation, share: string) =>
      queue.enter(share, false, { share, isOperator: false, costMs: 1_000 }, true);
    // Each share has had its part.
    for (const share of ['a', 'b', 'c']) {
      enter(one, share);
      expect(one.start()).toHaveLength(1);
      one.endNext();
    }
    for (const share of ['a', 'b']) enter(one, share);
    enter(other, 'c');
    expect(one.start()).toHaveLength(1);
    expect(other.start()).toEqual([]);
    enter(other, 'quiet');
    expect(other.start().map(({ item }) => item.share)).toEqual(['quiet']);
    other.endNext();
    expect(other.start()).toEqual([]);
    woken.length = 0;
    // The other queue goes first.
    one.endNext();
    expect(woken).toEqual(['other']);
    expect(other.start().map(({ item }) => item.share)).toEqual(['c']);
    expect(one.start()).toEqual([]);
  });

  test('admitted tickets do not count as excess, whatever part of the long tickets may run', () => {
    for (const [ownerMax, max] of [
      [2, 6],
      [3, 11],
      [4, 8],
    ] as const) {
      for (let percent = 0; percent <= 100; percent++) {
        const part = percent / 100;
        const work = new LongWork(ownerMax, max);
        const owners = Array.from({ length: 2 * max }, (_, i) => `owner ${i % 4}`);
        for (const owner of owners) if (work.admits(owner, part)) work.started(owner);
        for (const owner of owners) expect([percent, work.excess(owner, part)]).toEqual([percent, 0]);
        const [first = ''] = owners;
        while (work.of(first) <= ownerMax) work.started(first);
        expect(work.excess(first, part)).toBeGreaterThan(0);
      }
    }
  });

  test('tickets that are known to be long delay no others of their share, and together use at most half of it', () => {
    const long = { areOthersActive: () => true, admitted: () => 0, work: new LongWork(1, 6) };
    const simulation = new Simulation(newQueue({ long }));
    const enter = (costMs: number, isLong: boolean) =>
      simulation.queue.enter('both', false, { share: 'both', isOperator: false, costMs }, isLong);
    for (let i = 0; i < 3; i++) enter(4_000, true);
    for (let i = 0; i < 8; i++) enter(5, false);
    const costs = simulation.start().map(({ item }) => item.costMs);
    expect([...costs].sort((a, b) => b - a)[0]).toBe(4_000);
    expect(costs.filter((costMs) => costMs === 4_000)).toHaveLength(1);
    expect(costs.length).toBeGreaterThan(1);
    expect(costs.length).toBeLessThanOrEqual(SHARE_SLOTS);
  });

  test('no ticket counts as long because of a delay that affects all of them', () => {
    let delayMs = 200;
    const long = { areOthersActive: () => true, admitted: () => 0, delayMs: () => delayMs };
    const simulation = new Simulation(newQueue({ long }));
    // Shares are forgotten once all of them are idle.
    simulation.enter({ share: 'busy', isOperator: false, costMs: 1 });
    simulation.queue.start();
    const run = () => {
      for (const share of ['a', 'b']) simulation.enter({ share, isOperator: false, costMs: 210 });
      const started = simulation.start();
      while (simulation.endNext() !== undefined);
      return started.length;
    };
    for (let i = 0; i < 10; i++) expect(run()).toBe(2);
    delayMs = 0;
    for (let i = 0; i < 10; i++) run();
    expect(run()).toBe(1);
  });

  test('one slow ticket of many holds a share back no longer than its next turn', () => {
    const simulation = new Simulation(newQueue({ long: { areOthersActive: () => true, admitted: () => 0 } }));
    const enter = (share: string, costMs: number) => simulation.enter({ share, isOperator: false, costMs });
    const end = (ticket: Ticket<Item> | undefined, costMs: number) => ticket && simulation.queue.end(ticket, costMs);
    for (let i = 0; i < 2; i++) enter('long', 4_000);
    for (const ticket of simulation.start()) simulation.queue.charge(ticket, 3_000);
    for (const costMs of [5, 5, 5, 2_500]) {
      enter('mostly short', costMs);
      end(simulation.start()[0], costMs);
    }
    for (let i = 0; i < 2; i++) enter('mostly short', 5);
    expect(simulation.start().map(({ item }) => item.share)).toEqual(['mostly short']);
    enter('long', 4_000);
    expect(simulation.start()).toEqual([]);
  });

  test('a slow first ticket of a share delays no other of it', () => {
    const work = new LongWork(4, 8);
    const simulation = new Simulation(newQueue({ long: { areOthersActive: () => true, admitted: () => 0, work } }));
    const enter = (share: string, costMs: number) => simulation.enter({ share, isOperator: false, costMs });
    const names = (tickets: readonly Ticket<Item>[]) => tickets.map(({ item }) => item.share);
    for (let i = 0; i < 2; i++) enter('long', 4_000);
    for (const ticket of simulation.start()) simulation.queue.charge(ticket, 3_000);
    enter('new', 300);
    for (const ticket of simulation.start()) simulation.queue.charge(ticket, 300);
    enter('new', 5);
    expect(names(simulation.start())).toEqual(['new']);
    while (simulation.endNext()?.item.share !== 'new');
    enter('long', 4_000);
    for (const ticket of simulation.start()) simulation.queue.charge(ticket, 3_000);
    for (let i = 0; i < 2; i++) enter('new', 5);
    expect(names(simulation.start())).toEqual(['new', 'new']);
  });

  test('a share that starts out of turn does not put newcomers behind it', () => {
    const simulation = new Simulation(newQueue({ slots: 1 }));
    const enter = (share: string) => simulation.enter({ share, isOperator: false, costMs: 1 });
    const isAhead = ({ share }: Item) => (share === 'ahead' ? 0 : Number.POSITIVE_INFINITY);
    enter('ahead');
    const [ahead] = simulation.start();
    enter('behind');
    enter('ahead');
    if (ahead !== undefined) simulation.queue.end(ahead, 10_000);
    const outOfTurn = simulation.queue.start(isAhead);
    expect(outOfTurn?.share.used).toBeGreaterThan(10_000);
    expect(enter('new')?.share.used).toBeLessThan(10_000);
  });

  test('the running tickets of a share count while they run', () => {
    const simulation = new Simulation(newQueue({ slots: 3 }));
    const enter = (share: string, costMs: number) => simulation.enter({ share, isOperator: false, costMs });
    const long = enter('long', 4_000);
    enter('short', 10);
    enter('other', 10);
    simulation.start();
    if (long !== null) simulation.queue.charge(long, 3_000);
    enter('long', 10);
    enter('short', 10);
    simulation.endNext();
    simulation.endNext();
    expect(simulation.start().map(({ item }) => item.share)[0]).toBe('short');
    simulation.endNext();
    if (long !== null) simulation.queue.end(long, 4_000);
    expect(long?.share.used).toBeGreaterThanOrEqual(4_000);
  });

  test('postponed work starts after other shares that have had a little more time, or not now', () => {
    const simulation = new Simulation(newQueue({ slots: 1 }));
    const enter = (share: string) => simulation.enter({ share, isOperator: false, costMs: 1 });
    enter('first');
    enter('second');
    const never = simulation.queue.start(({ share }) => (share === 'first' ? Number.POSITIVE_INFINITY : 0));
    expect(never?.item.share).toBe('second');
    if (never !== undefined) simulation.queue.end(never, 20);
    enter('second');
    const later = simulation.queue.start(({ share }) => (share === 'first' ? 50 : 0));
    expect(later?.item.share).toBe('second');
    if (later !== undefined) simulation.queue.end(later, 100);
    enter('second');
    expect(simulation.queue.start(({ share }) => (share === 'first' ? 50 : 0))?.item.share).toBe('first');
  });

  test('with a thousand waiting shares, a start looks only at those that may go first', () => {
    const random = seededRandom(5);
    const queue = newQueue({ slots: 2 });
    const enter = (share: string) => queue.enter(share, false, { share, isOperator: false, costMs: 1 });
    enter('runs all the time');
    queue.start();
    for (let i = 0; i < 1_000; i++) {
      const ticket = enter(`share ${i}`);
      queue.start();
      if (ticket !== null) queue.end(ticket, random() * 100);
    }
    for (let i = 0; i < 1_000; i++) enter(`share ${i}`);
    const looked = new Set<string>();
    const started = queue.start(({ share }) => {
      looked.add(share);
      return hasEighth(share) ? 0 : Number.POSITIVE_INFINITY;
    });
    expect(hasEighth(started?.item.share ?? '')).toBe(true);
    expect(looked.size).toBeLessThan(100);
  });

  test('time spent idle is no credit, and time had is not forgotten while others work', () => {
    const simulation = new Simulation(newQueue({ slots: 1 }));
    const order: string[] = [];
    const enter = (share: string, costMs: number) => simulation.enter({ share, isOperator: false, costMs });
    for (let i = 0; i < 10; i++) enter('busy', 10);
    const run = (steps: number): void => {
      for (let i = 0; i < steps; i++) {
        simulation.start();
        order.push(simulation.endNext()?.item.share ?? '');
      }
    };
    run(5);
    for (let i = 0; i < 5; i++) enter('late', 10);
    run(6);
    // Without credit for its idle time, the late share takes turns.
    expect(order.slice(5).filter((share) => share === 'late').length).toBeLessThanOrEqual(4);
    enter('greedy', 1_000);
    run(2);
    expect(order).toContain('greedy');
    enter('greedy', 1_000);
    for (let i = 0; i < 10; i++) enter('busy', 10);
    run(5);
    expect(order.slice(-5)).not.toContain('greedy');
  });

  test("operators start first and on a slot of their own, and their work counts for no tenant's half", () => {
    const simulation = new Simulation(newQueue());
    for (const share of 'abcdefgh') {
      for (let i = 0; i < 10; i++) simulation.enter({ share, isOperator: false, costMs: 100 });
    }
    expect(simulation.start()).toHaveLength(SLOTS);
    for (let i = 0; i < 10; i++) simulation.enter({ share: 'a', isOperator: true, costMs: 1 });
    expect(simulation.start().map(({ item }) => item.isOperator)).toEqual([true]);
    simulation.endNext();
    expect(simulation.start().map(({ item }) => item.isOperator)).toEqual([true]);
  });

  test('a full queue refuses its own share alone', () => {
    const { queue } = new Simulation(newQueue({ shareWaitingMax: 3 }));
    const enter = (share: string) => queue.enter(share, false, { share, isOperator: false, costMs: 1 });
    expect([1, 2, 3, 4].map(() => enter('flood') !== null)).toEqual([true, true, true, false]);
    expect(enter('other')).not.toBeNull();
  });

  test('shares that have become idle take no memory', () => {
    const simulation = new Simulation(newQueue());
    simulation.enter({ share: 'long', isOperator: false, costMs: 1e9 });
    simulation.start();
    let most = 0;
    for (let i = 0; i < 20_000; i++) {
      simulation.enter({ share: `once ${i}`, isOperator: false, costMs: 3 });
      simulation.start();
      simulation.endNext();
      most = Math.max(most, simulation.queue.size);
    }
    expect(most).toBeLessThan(200);
    simulation.endNext();
    expect(simulation.queue.size).toBe(0);
  });
});
