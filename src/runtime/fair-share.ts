// A tenant's share of a fair queue: the time that it has used, how long its tickets run, and its waiting tickets in order.
// Times are milliseconds.
// Contract: neighbours#fair-shares.

/** Work that waits for a slot or holds one. */
export interface Ticket<T> {
  readonly item: T;
  readonly share: Share<T>;
  state: 'waiting' | 'running' | 'ended';
  /** What the share was charged when the ticket started; corrected when the ticket ends. */
  charged: number;
  /** Whether it runs long, and counts against the slots that long tickets may hold. */
  isLong: boolean;
  sequence: number;
  next: Ticket<T> | undefined;
  previous: Ticket<T> | undefined;
}

export interface Share<T> {
  readonly name: string;
  /** The tenant whose tickets these are. It may have a second share, for its long tickets. */
  readonly owner: string;
  /** The owner's other share. */
  sibling: Share<T> | undefined;
  /** The time that it has used, counted from the level at which it became active. */
  used: number;
  /** What a ticket of this share is expected to cost: the average of its last tickets. */
  expected: number;
  /** The part of its last tickets that ran long, from 0 to 1; the first long one counts in proportion to its time. */
  longPart: number;
  /** Whether one of its tickets has ended, so that `expected` and `longPart` are known. */
  isKnown: boolean;
  running: number;
  /** Running tickets that have become long. */
  longRunning: number;
  waiting: number;
  first: Ticket<T> | undefined;
  last: Ticket<T> | undefined;
  /** Its position among the shares with waiting work; -1 without waiting work. */
  at: number;
}

/** The share of the service's own work, which all tenants wait for. */
export const SERVICE_SHARE = 'service';
const FIRST_EXPECTED_MS = 1;
/** A ticket is long if it is expected to run for this time, or has run for it. The service's own tickets are never long. */
export const LONG_MS = 120;
/** A ticket that runs for this time is itself long: other work does not slow a ticket down that much. */
const SURELY_LONG_MS = 960;

/** Whether the share's tickets run long. */
export function isLong({ owner, expected }: { owner: string; expected: number }): boolean {
  return expected >= LONG_MS && owner !== SERVICE_SHARE;
}

/** Whether a running ticket of this age predicts the share's next tickets: a single one may be slow because of other shares. */
export function predictsNext({ longRunning }: { longRunning: number }, ageMs: number): boolean {
  return longRunning > 1 || ageMs >= SURELY_LONG_MS;
}

/** Updates the share's averages with a ticket that has ended. */
export function learn<T>(share: Share<T>, costMs: number): void {
  const counted = share.longPart > 0 ? 1 : Math.min(1, costMs / SURELY_LONG_MS);
  const longPart = costMs >= LONG_MS ? counted : 0;
  share.expected += (costMs - share.expected) / 8;
  share.longPart += (longPart - share.longPart) / (share.isKnown ? 8 : 1);
  share.isKnown = true;
}

/** Orders shares that have used the same time: the one with fewer running tickets first, then the one that waits longer. */
function precedes<T>(a: Share<T>, b: Share<T>): boolean {
  if (a.running !== b.running) return a.running < b.running;
  return (a.first?.sequence ?? 0) < (b.first?.sequence ?? 0);
}

/** Whether a share that may start at `at`, in used time, goes before the best one so far. */
export function isBefore<T>(share: Share<T>, at: number, best: Share<T> | undefined, bestAt: number): boolean {
  return at < bestAt || (at === bestAt && best !== undefined && precedes(share, best));
}

/** A new share; with `ofLong`, for tickets that are known to run long. */
export function newShare<T>(name: string, owner: string, used: number, ofLong = false): Share<T> {
  return {
    name,
    owner,
    sibling: undefined,
    used,
    expected: ofLong ? LONG_MS : FIRST_EXPECTED_MS,
    longPart: ofLong ? 1 : 0,
    isKnown: ofLong,
    running: 0,
    longRunning: 0,
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

/**
 * How far a waiting ticket of this share is put back behind its turn, in milliseconds of used time; infinite if it may not start now.
 */
export type Postponement<T> = (item: T, share: Share<T>) => number;
