// Decides whose work starts next when work of many tenants waits for a few slots: connections, hashing threads, locks.
// Work of the same share waits in order; among the shares, the one that has had the least time comes first. A share takes
// a further slot only while more are free than it holds, and never more than half: with k busy shares, each has about
// 1/(k + 1) of the slots, and one that arrives finds a free one. A share whose tickets run long has at most a quarter of
// the slots while others are active, as has one that is new, and a quarter of the slots is kept for shares whose tickets are
// short. While slots are admitted in part, tenants that have had most have fewer. A share that was idle starts at the level of the
// others: idle time is no credit. Operators' work comes first and has slots of its own. Idle shares take no memory, but for the few
// that have had most. Without clock and promises; times are milliseconds. Contract: neighbours#fair-shares.
import {
  append,
  isBefore,
  isLong,
  LONG_MS,
  learn,
  newShare,
  type Postponement,
  remove,
  SERVICE_SHARE,
  type Share,
  type Ticket,
  tellsOfShare,
} from './fair-share.ts';
import type { LongLimits } from './long-work.ts';
import { Shares } from './shares.ts';

export interface FairQueueOptions {
  slots: number;
  /** Further slots, which only operators' work may take. */
  operatorSlots: number;
  /** Waiting tickets of one share; further ones are refused. */
  shareWaitingMax: number;
  /** Limits on long tickets; without them, they are as others. */
  long?: LongLimits;
}

const unpostponed = (): number => 0;
/** What a ticket is charged at least, unless it took less. */
const OWN_LEAST_MS = 1;

export class FairQueue<T> {
  readonly #options: FairQueueOptions;
  /** What one share may hold at most. */
  readonly #shareSlots: number;
  /** What a share of long tickets may hold at most while others are active. */
  readonly #longShareSlots: number;
  /** What all long tickets may hold together. */
  readonly #longSlots: number;
  readonly #operators: Share<T> = newShare('operators', 'operators', 0);
  readonly #shares = new Shares<T>();
  /** The shares that have waiting work, in no order. */
  readonly #ready: Share<T>[] = [];
  /** The least time that a share with waiting work has had, seen at the last start; never falls while work runs. */
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

  /** Tickets that hold a slot for long. */
  get longRunning(): number {
    return this.#longRunning;
  }

  /** Shares in memory. */
  get size(): number {
    return this.#shares.size;
  }

  /** Adds waiting work; null when its share has too much. What is known to run long does not hold up the share's other work. */
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

  /** Starts the ticket whose turn it is, given what is postponed; undefined when none may start now. */
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
      if (tellsOfShare(share, ownMs)) share.expected = Math.max(share.expected, LONG_MS);
    }
    if (ownMs <= ticket.charged) return;
    share.used += ownMs - ticket.charged;
    ticket.charged = ownMs;
  }

  /** What a ticket has taken of itself; of one that has waited for others all the time, a little. */
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

  /** Ends a ticket: frees its slot and charges its share for `costMs`, or takes it out of the queue. */
  end(ticket: Ticket<T>, costMs: number): void {
    const { share, state } = ticket;
    if (state === 'ended') return;
    if (state === 'waiting') this.#unlink(ticket);
    else {
      const ownMs = this.#own(costMs);
      share.used += ownMs - ticket.charged;
      learn(share, ownMs);
      if (share !== this.#operators) this.#options.long?.givingWay?.add(share.owner, costMs, ticket.isLong);
      share.running--;
      this.#running--;
      if (ticket.isLong) this.#endLong(ticket, costMs);
    }
    ticket.state = 'ended';
    if (share === this.#operators || share.running + share.waiting > 0) return;
    if (this.#running + this.#waiting === 0) this.#shares.clear();
    else this.#shares.forget(share, this.#level);
  }

  /** Whether the ticket's share holds all that it may. */
  isAtLimit({ share }: Ticket<T>): boolean {
    if (share === this.#operators) return share.running >= this.#operatorLimit();
    return !this.#mayTake(share, share.running, this.#options.slots - this.#held(), this.#longRunning);
  }

  /** How many waiting tickets may start now, at most. */
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

  /** Whether a share that holds `held` slots may take one of the `free` ones, while long tickets hold `long` of all. */
  #mayTake(share: Share<T>, held: number, free: number, long: number): boolean {
    if (isLong(share) && !this.#mayTakeLong(share, held, long)) return false;
    const ofOwner = held + (share.sibling?.running ?? 0);
    return ofOwner === 0 ? free > 0 : ofOwner < free && ofOwner < this.#limitOf(share);
  }

  #mayTakeLong({ owner, longPart }: Share<T>, held: number, long: number): boolean {
    // One slow statement of many holds nobody back: it may have been others who made it slow.
    if (held === 0 && longPart < 0.5) return true;
    const { areOthersActive, admitted, work, wake } = this.#options.long ?? {};
    const isAlone = areOthersActive?.(owner) !== true;
    const part = isAlone ? 1 : (admitted?.() ?? 1);
    // What all queues run together is admitted by `work`.
    if (long > 0 && long >= this.#longSlots * (work === undefined ? part : 1)) return false;
    return isAlone || work === undefined || work.admits(owner, part, wake);
  }

  /** How many of its owner's long tickets would have to wait if they came now; 0 when this one is not long. */
  excess({ isLong, share }: Ticket<T>): number {
    const { areOthersActive, admitted, work } = this.#options.long ?? {};
    if (!isLong || work === undefined || areOthersActive?.(share.owner) !== true) return 0;
    return work.excess(share.owner, admitted?.() ?? 1);
  }

  #limitOf(share: Share<T>): number {
    const { areOthersActive, givingWay } = this.#options.long ?? {};
    if (areOthersActive?.(share.owner) !== true) return this.#shareSlots;
    const slots = isLong(share) || !share.isKnown ? this.#longShareSlots : this.#shareSlots;
    return givingWay?.slotsOf(share.owner, slots) ?? slots;
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

  /** Operators, too, leave slots to the tenants. */
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
      // What could not win anyway is not looked at: of a thousand that wait, a few dozen are.
      if (share.first === undefined || !isBefore(share, share.used, best, bestAt)) continue;
      if (!this.#mayTake(share, share.running, free, this.#longRunning)) continue;
      const at = share.used + postponement(share.first.item, share);
      if (isBefore(share, at, best, bestAt)) {
        best = share;
        bestAt = at;
      }
    }
    // Not the time of the share that starts: shares with less may have to wait for another reason.
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
