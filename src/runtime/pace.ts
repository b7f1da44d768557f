// A rate limit: a burst of units at once, and a number of units a second in the long run. Work that arrives faster is told how long to
// wait. Each share, such as a tenant or a client's network, has a rate of its own; shares at rest are forgotten. Uses no timers; times
// are milliseconds. Contract: neighbours#fair-shares.

export interface PaceOptions {
  perSecond: number;
  /** Units that do not wait. */
  burst: number;
  /** The longest wait; if absent, a wait lasts as long as the units take. */
  waitMaxMs?: number;
}

/** Shares remembered before those at rest are forgotten. */
const SHARES_KEPT = 1_000;

export class Pace {
  #used = 0;
  #at = 0;

  constructor(private readonly options: PaceOptions) {}

  /** Counts a cost. Returns how long to wait before the work. */
  take(cost: number, nowMs: number): number {
    const { perSecond, burst, waitMaxMs = Number.POSITIVE_INFINITY } = this.options;
    const used = Math.max(0, this.#used - ((nowMs - this.#at) * perSecond) / 1_000) + cost;
    this.#used = Math.min(used, burst + (waitMaxMs * perSecond) / 1_000);
    this.#at = nowMs;
    return Math.max(0, ((this.#used - burst) / perSecond) * 1_000);
  }

  isAtRest(nowMs: number): boolean {
    return (this.#used * 1_000) / this.options.perSecond <= nowMs - this.#at;
  }
}

export class SharePaces {
  readonly #shares = new Map<string, Pace>();

  constructor(private readonly options: PaceOptions) {}

  /** Counts a cost of this share. Returns how long to wait before the work. */
  take(share: string, cost: number, nowMs = performance.now()): number {
    return (this.#shares.get(share) ?? this.#newShare(share, nowMs)).take(cost, nowMs);
  }

  #newShare(share: string, nowMs: number): Pace {
    if (this.#shares.size >= SHARES_KEPT) {
      for (const [name, pace] of this.#shares) if (pace.isAtRest(nowMs)) this.#shares.delete(name);
    }
    const pace = new Pace(this.options);
    this.#shares.set(share, pace);
    return pace;
  }
}
