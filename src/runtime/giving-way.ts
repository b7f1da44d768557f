// How owners that have had more time on a shared resource than the others give way while its slots are admitted in part. The more an
// owner has had, the fewer slots it may hold. One that has had most of the time also rests after each ticket, since a single slot that
// is never idle keeps a processor busy. While several owners have had about the same time, none rests: a quiet owner's
// statements take long because of the others, so that it could be mistaken for a busy one.
// Without a clock; times are milliseconds. Contract: neighbours#fair-shares.
import { SERVICE_SHARE } from './fair-share.ts';
import { TimeHad } from './time-had.ts';

/** Of the time that owners have had, what counts for half. */
const HALVED_BY_MS = 3_000;
/**
 * The rest of an owner that has had all the time, while no slot is admitted, in times of what ran. Beside eight attacks by one
 * tenant, another one has a p99 of 50 ms without rests, 35 with 4, and 32 to 41 with 8, where the attacker gets half as much.
 */
const REST_FACTOR = 4;
/** The longest rest. */
const REST_MAX_MS = 500;
/** An owner that has had a larger part of the time rests, the longer the larger it is. */
const MOST = 0.5;
/** Ended rests are removed when there are so many. */
const RESTS_KEPT = 64;

export class GivingWay {
  readonly #had = new TimeHad(HALVED_BY_MS);
  /** Without what ran long, such as the index of a tenant that does little else: its short calls keep their slots meanwhile. */
  readonly #hadShort = new TimeHad(HALVED_BY_MS);
  /** When the rest of a share ends. */
  readonly #rests = new Map<string, number>();

  /** `admitted` is the part of the slots that may be used now, from 0 to 1. */
  constructor(private readonly admitted: () => number) {}

  /** Counts time that the owner has had. */
  add(owner: string, ms: number, isLong: boolean): void {
    this.#had.add(owner, ms);
    if (!isLong) this.#hadShort.add(owner, ms);
  }

  /** Of so many slots, how many the owner may hold: the more it has had of short work than others, the fewer; one at least. */
  slotsOf(owner: string, slots: number): number {
    // What all tenants wait for gives way to none.
    const weight = owner === SERVICE_SHARE ? 0 : this.#hadShort.weightOf(owner);
    return weight > 1 ? Math.max(1, Math.round(slots * this.admitted() ** weight)) : slots;
  }

  /** A share of the owner has run something for so long: if the owner has had most of the time, the share rests. */
  ran(owner: string, share: string, ms: number, now: number): void {
    const beyond = (this.#had.partOf(owner) - MOST) / (1 - MOST);
    const restMs = ms * REST_FACTOR * beyond * (1 - this.admitted());
    if (restMs <= 0 || owner === SERVICE_SHARE) return;
    if (this.#rests.size >= RESTS_KEPT) this.#removeEnded(now);
    const after = Math.max(now, this.#rests.get(share) ?? now);
    this.#rests.set(share, Math.min(now + REST_MAX_MS, after + restMs));
  }

  /** Whether the share is to start nothing now. */
  isResting(share: string, now: number): boolean {
    return now < (this.#rests.get(share) ?? 0);
  }

  #removeEnded(now: number): void {
    for (const [share, endsAt] of this.#rests) if (endsAt <= now) this.#rests.delete(share);
  }
}
