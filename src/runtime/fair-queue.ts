// A fair queue: decides whose work starts next when work of many tenants waits for a few slots (connections, hashing threads, locks).
// Work of one share waits in order; among the shares, the one that has used the least time goes first. A share takes a further slot
// only while more slots are free than it holds, and never more than half. With k busy shares each has about 1/(k + 1) of the slots,
// and a new share finds a free one. While others are active, a share that is new or whose tickets run long has at most a quarter of
// the slots, and a quarter is kept for shares with short tickets. While slots are admitted in part, tenants that have used the most
// time have fewer. A share that was idle starts at the level of the others: idle time earns no credit. Operators' work goes first and
// has slots of its own. Idle shares take no memory, except the few that used the most. No clock, no promises; times are milliseconds.
// Contract: neighbours#fair-shares.
import {
  append,
  isBefore,
  isLong,
  LONG_MS,
  learn,
  newShare,
  type Postponement,
  predictsNext,
  remove,
  SERVICE_SHARE,
  type Share,
  type Ticket,
} from './fair-share.ts';
import type { LongLimits } from './long-work.ts';
import { Shares } from './shares.ts';

export interface FairQueueOptions {
  slots: number;
  /** Additional slots for operators' work only. */
  operatorSlots: number;
  /** How many tickets of one share may wait; further ones are refused. */
  shareWaitingMax: number;
  /** Limits on long tickets; without them, long tickets are treated like short ones. */
  long?: LongLimits;
}

const unpostponed = (): number => 0;
/** The least that a ticket is charged, unless it took less time than this. */
const OWN_LEAST_MS = 1;

export class FairQueue<T> {
  readonly #options: FairQueueOptions;
  /** The most slots that one share may hold. */
  readonly #shareSlots: number;
  /** The most slots that a share with long tickets may hold while others are active. */
  readonly #longShareSlots: number;
  /** The most slots that all long tickets may hold together. */
  readonly #longSlots: number;
  readonly #operators: Share<T> = newShare('operators', 'operators', 0);
  readonly #shares = new Shares<T>();
  /** The shares that have waiting work, in no order. */
  readonly #ready: Share<T>[] = [];
  /** The least time that any share with waiting work had used at the last start; never falls while work runs. */
  #level = 0;
  #running = 0;
  #longRunning = 0;
  #waiting = 0;
  #sequence = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
    this.#shareSlots = Math.max(1, options.slots >> 1);
    this.#longShareSlots = Math.max(1, options.slots >> 2);
    this.#longSlots = options.slots - (options.long === undefined ? 0 : options.slots >> 2);
  }

  /** Tickets that wait. */
  get length(): number {
    return this.#waiting;
  }

  /** Tickets that hold a slot. */
  get running(): number {
    return this.#running;
  }

  /** Long tickets that hold a slot. */
  get longRunning(): number {
    return this.#longRunning;
  }

  /** Shares in memory. */
  get size(): number {
    return this.#shares.size;
  }

  /** Adds waiting work; null when too much of its share waits. Work that is known to run long does not hold up the share's other work. */
  enter(shareName: string, isOperator: boolean, item: T, isKnownLong = false): Ticket<T> | null {
    const share = isOperator ? this.#operators : this.#shares.activate(shareName, isKnownLong, this.#level);
    if (share.waiting >= this.#options.shareWaitingMax) return null;
    const ticket: Ticket<T> = {
      item,
      share,
      state: 'waiting',
      charged: 0,
      isLong: false,
      sequence: ++this.#sequence,
      next: undefined,
      previous: undefined,
    };
    append(ticket);
    this.#waiting++;
    if (share.waiting === 1 && !isOperator) share.at = this.#ready.push(share) - 1;
    return ticket;
  }

  /** Starts the ticket whose turn it is, with postponed tickets put back; undefined when none may start now. */
  start(postponement: Postponement<T> = unpostponed): Ticket<T> | undefined {
    const share = this.#nextShare(postponement);
    const ticket = share?.first;
    if (share === undefined || ticket === undefined) return undefined;
    this.#unlink(ticket);
    ticket.state = 'running';
    ticket.charged = share.expected;
    share.used += ticket.charged;
    share.running++;
    this.#running++;
    if (isLong(share)) this.#noteLong(ticket);
    return ticket;
  }

  /** Charges a running ticket's share for the time that it has taken so far. */
  charge(ticket: Ticket<T>, costMs: number): void {
    const { share } = ticket;
    if (ticket.state !== 'running') return;
    const ownMs = this.#own(costMs);
    if (ownMs >= LONG_MS) {
      this.#noteLong(ticket);
      if (predictsNext(share, ownMs)) share.expected = Math.max(share.expected, LONG_MS);
    }
    if (ownMs <= ticket.charged) return;
    share.used += ownMs - ticket.charged;
    ticket.charged = ownMs;
  }

  /** The time that a ticket itself has taken, without the delay that other work causes; never 0 for a ticket that ran. */
  #own(costMs: number): number {
    return Math.max(Math.min(costMs, OWN_LEAST_MS), costMs - (this.#options.long?.delayMs?.() ?? 0));
  }

  #noteLong(ticket: Ticket<T>): void {
    const { share } = ticket;
    if (ticket.isLong || share === this.#operators || share.owner === SERVICE_SHARE) return;
    ticket.isLong = true;
    share.longRunning++;
    this.#longRunning++;
    this.#options.long?.work?.started(share.owner);
  }

  #endLong({ share }: Ticket<T>, costMs: number): void {
    share.longRunning--;
    this.#longRunning--;
    const { work, wake } = this.#options.long ?? {};
    work?.ended(share.owner, costMs, wake);
  }

  /** Ends a ticket: frees its slot and charges its share for `costMs`, or removes it from the queue if it still waits. */
  end(ticket: Ticket<T>, costMs: number): void {
    const { share, state } = ticket;
    if (state === 'ended') return;
    if (state === 'waiting') this.#unlink(ticket);
    else {
      const ownMs = this.#own(costMs);
      share.used += ownMs - ticket.charged;
      learn(share, ownMs);
      if (share !== this.#operators) this.#options.long?.throttle?.add(share.owner, costMs, ticket.isLong);
      share.running--;
      this.#running--;
      if (ticket.isLong) this.#endLong(ticket, costMs);
    }
    ticket.state = 'ended';
    if (share === this.#operators || share.running + share.waiting > 0) return;
    if (this.#running + this.#waiting === 0) this.#shares.clear();
    else this.#shares.forget(share, this.#level);
  }

  /** Whether the ticket's share holds all the slots that it may hold. */
  isAtLimit({ share }: Ticket<T>): boolean {
    if (share === this.#operators) return share.running >= this.#operatorLimit();
    return !this.#mayTake(share, share.running, this.#options.slots - this.#held(), this.#longRunning);
  }

  /** The most waiting tickets that may start now. */
  get startable(): number {
    const { slots, operatorSlots } = this.#options;
    const { waiting, running } = this.#operators;
    const reserved = Math.max(0, operatorSlots - running);
    const free = slots - this.#held();
    const operators = Math.min(waiting, reserved + free, this.#operatorLimit() - running);
    let left = free - Math.max(0, operators - reserved);
    let others = 0;
    let long = this.#longRunning;
    for (const share of this.#ready) {
      for (let i = 0; i < share.waiting && this.#mayTake(share, share.running + i, left, long); i++, left--) {
        others++;
        if (isLong(share)) long++;
      }
    }
    return operators + others;
  }

  /** Whether a share that holds `held` slots may take one of the `free` slots, while all long tickets together hold `long`. */
  #mayTake(share: Share<T>, held: number, free: number, long: number): boolean {
    if (isLong(share) && !this.#mayTakeLong(share, held, long)) return false;
    const ofOwner = held + (share.sibling?.running ?? 0);
    return ofOwner === 0 ? free > 0 : ofOwner < free && ofOwner < this.#limitOf(share);
  }

  #mayTakeLong({ owner, longPart }: Share<T>, held: number, long: number): boolean {
    // One slow statement among many does not hold its share back: other shares may have made it slow.
    if (held === 0 && longPart < 0.5) return true;
    const { areOthersActive, admitted, work, wake } = this.#options.long ?? {};
    const isAlone = areOthersActive?.(owner) !== true;
    const part = isAlone ? 1 : (admitted?.() ?? 1);
    // With `work`, the limit on all queues together is checked there.
    if (long > 0 && long >= this.#longSlots * (work === undefined ? part : 1)) return false;
    return isAlone || work === undefined || work.admits(owner, part, wake);
  }

  /** How many of the owner's long tickets would have to wait if they arrived now; 0 when this ticket is not long. */
  excess({ isLong, share }: Ticket<T>): number {
    const { areOthersActive, admitted, work } = this.#options.long ?? {};
    if (!isLong || work === undefined || areOthersActive?.(share.owner) !== true) return 0;
    return work.excess(share.owner, admitted?.() ?? 1);
  }

  #limitOf(share: Share<T>): number {
    const { areOthersActive, throttle } = this.#options.long ?? {};
    if (areOthersActive?.(share.owner) !== true) return this.#shareSlots;
    const slots = isLong(share) || !share.isKnown ? this.#longShareSlots : this.#shareSlots;
    return throttle?.slotsOf(share.owner, slots) ?? slots;
  }

  /** The waiting tickets, in no order across shares. */
  *waiting(): Generator<Ticket<T>> {
    for (const share of [this.#operators, ...this.#ready]) {
      for (let ticket = share.first; ticket !== undefined; ) {
        const { next } = ticket;
        yield ticket;
        ticket = next;
      }
    }
  }

  /** Slots that are taken, besides those reserved for operators. */
  #held(): number {
    const { running } = this.#operators;
    return this.#running - Math.min(running, this.#options.operatorSlots);
  }

  /** The most slots that operators may hold: they, too, leave slots to the tenants. */
  #operatorLimit(): number {
    return this.#options.operatorSlots + this.#shareSlots;
  }

  #nextShare(postponement: Postponement<T>): Share<T> | undefined {
    const free = this.#options.slots - this.#held();
    const isFull = free <= 0;
    const operators = this.#operators;
    if (operators.waiting > 0 && operators.running < this.#operatorLimit()) {
      if (!isFull || operators.running < this.#options.operatorSlots) return operators;
    }
    if (isFull) return undefined;
    let best: Share<T> | undefined;
    let bestAt = Number.POSITIVE_INFINITY;
    let least = Number.POSITIVE_INFINITY;
    for (const share of this.#ready) {
      least = Math.min(least, share.used);
      // A share that could not win is skipped: of a thousand that wait, a few dozen are examined.
      if (share.first === undefined || !isBefore(share, share.used, best, bestAt)) continue;
      if (!this.#mayTake(share, share.running, free, this.#longRunning)) continue;
      const at = share.used + postponement(share.first.item, share);
      if (isBefore(share, at, best, bestAt)) {
        best = share;
        bestAt = at;
      }
    }
    // Not the time of the share that starts: a share that has used less may have to wait for another reason.
    if (best !== undefined) this.#level = Math.max(this.#level, least);
    return best;
  }

  #unlink(ticket: Ticket<T>): void {
    const { share } = ticket;
    remove(ticket);
    this.#waiting--;
    if (share.waiting === 0 && share.at >= 0) this.#unready(share);
  }

  #unready(share: Share<T>): void {
    const last = this.#ready.pop();
    if (last !== undefined && last !== share) {
      this.#ready[share.at] = last;
      last.at = share.at;
    }
    share.at = -1;
  }
}
