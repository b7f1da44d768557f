// Throttles owners that have used more of a shared resource than the others while only a part of its slots is admitted. The more an
// owner has used, the fewer slots it may hold. An owner that has used most of the time also rests after each ticket, since even a
// single slot that is never idle keeps a processor busy. While several owners have used about the same time, none rests: busy owners
// make a quiet owner's statements slow too, so a quiet owner could be mistaken for a busy one.
// Uses no clock; times are milliseconds. Contract: neighbours#fair-shares.
import { SERVICE_SHARE } from './fair-share.ts';
import { UsedTime } from './used-time.ts';

/** Used time counts for half once all owners together have used this much more. */
const HALVED_BY_MS = 3_000;
/**
 * The rest of an owner that has used all the time, while no slot is admitted, as a multiple of the time that its ticket ran. Beside
 * eight attacks by one tenant, another tenant has a p99 of 50 ms without rests, 35 with 4, and 32 to 41 with 8, where the attacker
 * gets half as much done.
 */
const REST_FACTOR = 4;
/** The owner of the idle connection. */
const NOBODY = 'nobody';
/** A longer time without calls counts for no more. */
const PASSED_MAX_MS = 1_000;
/** The longest rest. */
const REST_MAX_MS = 500;
/** An owner that has used a larger part of the time than this rests; the larger the part, the longer. */
const MOST = 0.5;
/** Ended rests are removed once this many are stored. */
const RESTS_KEPT = 64;

export class Throttle {
  readonly #used = new UsedTime(HALVED_BY_MS);
  /** Short work only: while a tenant that does little else builds an index, its short calls keep their slots. */
  readonly #usedShort = new UsedTime(HALVED_BY_MS);
  /** When the rest of a share ends. */
  readonly #rests = new Map<string, number>();
  #passedAt: number | undefined;

  /** `admitted` is the part of the slots that may be used now, from 0 to 1. */
  constructor(private readonly admitted: () => number) {}

  /**
   * Notes that time passes, and counts one idle connection. An owner that uses less than one connection's time is therefore not
   * throttled, even if the others use nothing, as beside a tenant that keeps only the event loop busy.
   */
  passed(now: number): void {
    const ms = Math.min(PASSED_MAX_MS, now - (this.#passedAt ?? now));
    this.#passedAt = now;
    for (const used of [this.#used, this.#usedShort]) used.add(NOBODY, ms);
  }

  /** Counts time that the owner has used. */
  add(owner: string, ms: number, isLong: boolean): void {
    this.#used.add(owner, ms);
    if (!isLong) this.#usedShort.add(owner, ms);
  }

  /** How many of `slots` the owner may hold: the more short work it has run than others, the fewer; one at least. */
  slotsOf(owner: string, slots: number): number {
    // All tenants wait for the service's own work, so it is never throttled.
    const weight = owner === SERVICE_SHARE ? 0 : this.#usedShort.weightOf(owner);
    return weight > 1 ? Math.max(1, Math.round(slots * this.admitted() ** weight)) : slots;
  }

  /** Notes that a ticket of the owner's share ran for `ms`. The share then rests if the owner has used most of the time. */
  ran(owner: string, share: string, ms: number, now: number): void {
    const beyond = (this.#used.partOf(owner) - MOST) / (1 - MOST);
    const restMs = ms * REST_FACTOR * beyond * (1 - this.admitted());
    if (restMs <= 0 || owner === SERVICE_SHARE) return;
    if (this.#rests.size >= RESTS_KEPT) this.#removeEnded(now);
    const after = Math.max(now, this.#rests.get(share) ?? now);
    this.#rests.set(share, Math.min(now + REST_MAX_MS, after + restMs));
  }

  /** Whether the share must not start anything now. */
  isResting(share: string, now: number): boolean {
    return now < (this.#rests.get(share) ?? 0);
  }

  #removeEnded(now: number): void {
    for (const [share, endsAt] of this.#rests) if (endsAt <= now) this.#rests.delete(share);
  }
}
