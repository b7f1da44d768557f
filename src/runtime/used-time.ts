// How much time each owner has lately used of a shared resource, compared with the other owners. Older use counts for less: it loses
// weight as all owners together use more, and keeps it while the resource is idle. The cost of a call does not depend on the number
// of owners. Uses no clock; times are milliseconds. Contract: neighbours#fair-shares.

/** Later use counts for more instead of older use for less. When the factor has grown to this, all sums are scaled back. */
const GROWTH_MAX = 2 ** 20;
/** An owner that has used less is forgotten when the sums are scaled back. */
const LEAST_MS = 1;

export class UsedTime {
  readonly #used = new Map<string, number>();
  #total = 0;
  /** The sum of the squares of the owners' times. */
  #squares = 0;
  #growth = 1;

  /** Used time counts for half once all owners together have used this much more. */
  constructor(private readonly halvedByMs: number) {}

  /** Owners in memory. */
  get size(): number {
    return this.#used.size;
  }

  add(owner: string, ms: number): void {
    this.#growth *= 2 ** (ms / this.halvedByMs);
    if (this.#growth >= GROWTH_MAX) this.#scaleBack();
    const before = this.#used.get(owner) ?? 0;
    const now = before + ms * this.#growth;
    this.#used.set(owner, now);
    this.#total += now - before;
    this.#squares += now ** 2 - before ** 2;
  }

  /** The owner's part of the time that all have used, from 0 to 1; 0 while nothing has been used. */
  partOf(owner: string): number {
    return this.#total > 0 ? (this.#used.get(owner) ?? 0) / this.#total : 0;
  }

  /**
   * How much the owner has used compared with the others: 1 when all users have used the same, more for an owner that has used
   * more. Owners that have used next to nothing hardly count, however many they are.
   */
  weightOf(owner: string): number {
    const used = this.#used.get(owner) ?? 0;
    return this.#squares > 0 ? (used * this.#total) / this.#squares : 0;
  }

  #scaleBack(): void {
    const factor = 1 / this.#growth;
    this.#growth = 1;
    this.#total = 0;
    this.#squares = 0;
    for (const [owner, used] of this.#used) {
      const left = used * factor;
      if (left < LEAST_MS) {
        this.#used.delete(owner);
        continue;
      }
      this.#used.set(owner, left);
      this.#total += left;
      this.#squares += left ** 2;
    }
  }
}
