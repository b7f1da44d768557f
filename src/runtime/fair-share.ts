// A tenant's part in a fair queue: the time that it has had, how long its tickets run, and its waiting tickets in order.
// Times are milliseconds.
// Contract: neighbours#fair-shares.

/** Work that waits for a slot or holds one. */
export interface Ticket<T> {
  readonly item: T;
  readonly share: Share<T>;
  state: 'waiting' | 'running' | 'ended';
  /** What the share was charged when the ticket started; the end corrects it. */
  charged: number;
  /** Whether it runs long: counted against the slots that long tickets may hold. */
  isLong: boolean;
  sequence: number;
  next: Ticket<T> | undefined;
  previous: Ticket<T> | undefined;
}

export interface Share<T> {
  readonly name: string;
  /** Time had, counted from the level at which the share became active. */
  used: number;
  /** What a ticket of this share is expected to cost, from the last ones. */
  expected: number;
  /** How many of its last tickets ran long, from 0 to 1. */
  longPart: number;
  /** Whether one of its tickets has ended, so that `expected` and `longPart` are known. */
  isKnown: boolean;
  running: number;
  waiting: number;
  first: Ticket<T> | undefined;
  last: Ticket<T> | undefined;
  /** Its position among the shares with waiting work; -1 without any. */
  at: number;
}

/** The share of the service's own work, which all tenants wait for. */
export const SERVICE_SHARE = 'service';
const FIRST_EXPECTED_MS = 1;
/** Tickets that are expected to run for this time, or that have run for it, are long. The service's own never are. */
export const LONG_MS = 250;

/** Whether its tickets run long. */
export function isLong({ name, expected }: { name: string; expected: number }): boolean {
  return expected >= LONG_MS && name !== SERVICE_SHARE;
}

/** Counts a ticket that has ended among those that tell what the next one will take. */
export function learn<T>(share: Share<T>, costMs: number): void {
  const longPart = costMs >= LONG_MS ? 1 : 0;
  share.expected += (costMs - share.expected) / 8;
  share.longPart += (longPart - share.longPart) / (share.isKnown ? 8 : 1);
  share.isKnown = true;
}

/** Of shares that have had the same time: fewest running, then longest waiting. */
export function precedes<T>(a: Share<T>, b: Share<T>): boolean {
  if (a.running !== b.running) return a.running < b.running;
  return (a.first?.sequence ?? 0) < (b.first?.sequence ?? 0);
}

export function newShare<T>(name: string, used: number): Share<T> {
  return {
    name,
    used,
    expected: FIRST_EXPECTED_MS,
    longPart: 0,
    isKnown: false,
    running: 0,
    waiting: 0,
    first: undefined,
    last: undefined,
    at: -1,
  };
}

/** Adds a ticket at the end. */
export function append<T>(ticket: Ticket<T>): void {
  const { share } = ticket;
  ticket.previous = share.last;
  if (share.last === undefined) share.first = ticket;
  else share.last.next = ticket;
  share.last = ticket;
  share.waiting++;
}

/** Takes a waiting ticket out. */
export function remove<T>(ticket: Ticket<T>): void {
  const { share, previous, next } = ticket;
  if (previous === undefined) share.first = next;
  else previous.next = next;
  if (next === undefined) share.last = previous;
  else next.previous = previous;
  ticket.previous = undefined;
  ticket.next = undefined;
  share.waiting--;
}

/** The long tickets that each share runs, in all queues that use the same processors. */
export class LongWork {
  readonly #byShare = new Map<string, number>();

  /** `shareMax`: how many a share may run in all while others are active. */
  constructor(readonly shareMax: number) {}

  /** Counts one that has become long (1) or has ended (-1). */
  count(share: string, change: 1 | -1): void {
    const count = this.of(share) + change;
    if (count > 0) this.#byShare.set(share, count);
    else this.#byShare.delete(share);
  }

  of(share: string): number {
    return this.#byShare.get(share) ?? 0;
  }
}

/** What limits tickets that run long, so that short ones find slots. */
export interface LongLimits {
  /** Whether shares other than this one are active: while they are, it has at most a quarter of the slots. */
  areOthersActive(share: string): boolean;
  /** The part of the slots for long tickets that may be used now, from 0 to 1; without it, all. One may always run. */
  admitted?(): number;
  /** Shared by queues whose tickets use the same processors: a share's long tickets count in all of them together. */
  work?: LongWork;
}

/**
 * How much later than its turn a waiting ticket is to start now, in milliseconds of time had; infinite: not now. The
 * second parameter is how many tickets its share runs.
 */
export type Postponement<T> = (item: T, running: number) => number;
