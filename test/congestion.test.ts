// How much long work the database gets, tested on a model with its own clock: processors that statements share, and a probe that
// gets later the more statements wait for a processor. The seed of a failed run is in its title.
// Contract: neighbours#fair-shares.
import { describe, expect, test } from 'bun:test';
import { FairQueue } from '../src/runtime/fair-queue.ts';
import type { Ticket } from '../src/runtime/fair-share.ts';
import { Congestion, PROBE_MS } from '../src/runtime/postgres/congestion.ts';
import { seededRandom } from './support/random.ts';

const QUICK_MS = 2;
const LATE_MS = 60;

function observeMany(congestion: Congestion, count: number, probeMs: number): void {
  for (let i = 0; i < count; i++) congestion.observe(probeMs);
}

describe('the part of long work that is admitted', () => {
  test('is all of it before the first probe, and while probes are quick', () => {
    const congestion = new Congestion();
    expect(congestion.admitted).toBe(1);
    observeMany(congestion, 100, QUICK_MS);
    expect(congestion.admitted).toBe(1);
  });

  test('falls by a factor with each late probe, and rises by a step with each quick one', () => {
    const congestion = new Congestion();
    congestion.observe(QUICK_MS);
    let before = congestion.admitted;
    for (let i = 0; i < 8; i++) {
      congestion.observe(LATE_MS);
      expect(congestion.admitted / before).toBeCloseTo(0.5);
      before = congestion.admitted;
    }
    let steps = 0;
    for (; congestion.admitted < 1; steps++) {
      before = congestion.admitted;
      congestion.observe(QUICK_MS);
      expect(congestion.admitted - before).toBeLessThanOrEqual(0.02 + 1e-9);
    }
    // One slow second of the server is forgotten after five fast ones.
    expect(steps).toBeLessThanOrEqual(50);
  });

  test('does not fall for the time in which a response may have waited for the event loop', () => {
    const congestion = new Congestion();
    congestion.observe(QUICK_MS);
    congestion.observe(LATE_MS, LATE_MS - QUICK_MS);
    expect([congestion.admitted, congestion.delayMs]).toEqual([1, LATE_MS - QUICK_MS * 1.01]);
    congestion.observe(LATE_MS, LATE_MS / 2);
    expect(congestion.admitted).toBeCloseTo(0.5);
  });

  test('is between nothing and all, whatever the probes', () => {
    const random = seededRandom(7);
    const congestion = new Congestion();
    for (let i = 0; i < 10_000; i++) {
      congestion.observe(random() < 0.1 ? 10_000 * random() : 5 * random());
      expect(congestion.admitted).toBeGreaterThan(0);
      expect(congestion.admitted).toBeLessThanOrEqual(1);
    }
  });

  test('does not depend on how far away the database is, also when that changes', () => {
    const congestion = new Congestion();
    observeMany(congestion, 100, 40);
    expect(congestion.admitted).toBe(1);
    // A longer distance looks late at first; a minute later it is normal.
    observeMany(congestion, 600, 80);
    expect(congestion.admitted).toBe(1);
    // A shorter distance counts at once.
    congestion.observe(1);
    congestion.observe(80);
    expect(congestion.admitted).toBeCloseTo(0.5);
  });
});

interface Statement {
  /** Processor time that it still needs. */
  needMs: number;
  ageMs: number;
}

/** A pool of 16 connections whose tenants always have long statements waiting, on a server with some processors. */
class Server {
  readonly congestion = new Congestion();
  readonly queue = new FairQueue<Statement>({
    slots: 16,
    operatorSlots: 1,
    shareWaitingMax: 100,
    long: { areOthersActive: () => true, admitted: () => this.congestion.admitted },
  });
  readonly running = new Set<Ticket<Statement>>();

  constructor(
    private readonly processors: number,
    private readonly random: () => number,
  ) {
    for (let tenant = 0; tenant < 6; tenant++) for (let i = 0; i < 20; i++) this.enter(`tenant-${tenant}`);
  }

  enter(share: string): void {
    this.queue.enter(share, false, { needMs: 300 + 2_000 * this.random(), ageMs: 0 });
  }

  /** One interval between two probes. */
  step(): void {
    const part = Math.min(1, this.processors / Math.max(1, this.running.size));
    for (const ticket of [...this.running]) {
      ticket.item.ageMs += PROBE_MS;
      ticket.item.needMs -= PROBE_MS * part;
      this.queue.charge(ticket, ticket.item.ageMs);
      if (ticket.item.needMs > 0) continue;
      this.running.delete(ticket);
      this.queue.end(ticket, ticket.item.ageMs);
      this.enter(ticket.share.name);
    }
    for (let ticket = this.queue.start(); ticket !== undefined; ticket = this.queue.start()) this.running.add(ticket);
    if (this.queue.longRunning > 0) this.congestion.observe(this.probeMs());
  }

  /** A statement without work of its own waits a few milliseconds for each one that waits for a processor. */
  probeMs(): number {
    const waiting = Math.max(0, this.running.size + 1 - this.processors);
    return 1 + this.random() + 8 * waiting * (0.5 + this.random());
  }
}

/** The mean number of statements that run, once the server has been busy for a while. */
function meanRunning(processors: number, seed: number): number {
  const server = new Server(processors, seededRandom(seed));
  for (let i = 0; i < 300; i++) server.step();
  const steps = 3_000;
  let sum = 0;
  for (let i = 0; i < steps; i++) {
    server.step();
    // One statement may always run, so nobody starves.
    expect(server.running.size).toBeGreaterThan(0);
    sum += server.running.size;
  }
  return sum / steps;
}

describe.each([1, 2, 3])('a server whose tenants only have long statements (seed %d)', (seed) => {
  test.each([1, 2, 4, 8])('with %d processors is kept about as busy as it has processors', (processors) => {
    const mean = meanRunning(processors, seed);
    expect(mean).toBeGreaterThanOrEqual(Math.max(1, processors / 2));
    expect(mean).toBeLessThanOrEqual(processors + 2);
  });

  test('with processors for all runs as many as the pool has slots for long work', () => {
    expect(meanRunning(64, seed)).toBe(12);
  });
});
