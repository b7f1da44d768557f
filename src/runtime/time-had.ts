// How much time each owner has lately had of a shared resource, and how that compares with the other owners. Older time counts for
// less: it loses weight as all owners together use more, and not while the resource is idle. The cost of a call does not depend on
// the number of owners. Without a clock; times are milliseconds. Contract: neighbours#fair-shares.

/** Instead of shrinking all that was had before, what is had later counts for more, until this; then all of it is scaled back. */
const GROWTH_MAX = 2 ** 20;
/** An owner that has had less is forgotten when all is scaled back. */
const LEAST_MS = 1;

export class TimeHad {
  readonly #had = new Map<string, number>();
  #total = 0;
  /** The sum of the squares. */
  #squares = 0;
  #growth = 1;

  /** What has been had counts for half after all together have had so much more. */
  constructor(private readonly halvedByMs: number) {}

  /** Owners in memory. */
  get size(): number {
    return this.#had.size;
  }

  add(owner: string, ms: number): void {
    this.#growth *= 2 ** (ms / this.halvedByMs);
    if (this.#growth >= GROWTH_MAX) this.#scaleBack();
    const before = this.#had.get(owner) ?? 0;
    const now = before + ms * this.#growth;
    this.#had.set(owner, now);
    this.#total += now - before;
    this.#squares += now ** 2 - before ** 2;
  }

  /** The owner's part of the time had by all, from 0 to 1; 0 before any was had. */
  partOf(owner: string): number {
    return this.#total > 0 ? (this.#had.get(owner) ?? 0) / this.#total : 0;
  }

  /**
   * How much the owner has had in comparison: 1 when all who have had something have had the same, more for one that has had more.
   * Owners with next to nothing hardly count, however many they are.
   */
  weightOf(owner: string): number {
    const had = this.#had.get(owner) ?? 0;
    return this.#squares > 0 ? (had * this.#total) / this.#squares : 0;
  }

  #scaleBack(): void {
    const factor = 1 / this.#growth;
    this.#growth = 1;
    this.#total = 0;
    this.#squares = 0;
    for (const [owner, had] of this.#had) {
      const left = had * factor;
      if (left < LEAST_MS) {
        this.#had.delete(owner);
        continue;
      }
      this.#had.set(owner, left);
      this.#total += left;
      this.#squares += left ** 2;
    }
  }
}
