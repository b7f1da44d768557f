// An amount that all clients share: places, bytes. A share, such as a tenant or a client's network, may take as much as is
// still free afterwards, so that one alone gets half, and there is always room for one that has little. Shares that hold
// nothing take no memory.
// Contract: neighbours#fair-shares.

export class SharedBudget {
  readonly #byShare = new Map<string, number>();
  #taken = 0;

  constructor(private readonly total: number) {}

  /** What all shares hold. */
  get taken(): number {
    return this.#taken;
  }

  heldBy(share: string): number {
    return this.#byShare.get(share) ?? 0;
  }

  /** False when the share may not have so much more now. */
  take(share: string, amount: number): boolean {
    if (!this.admits(share, amount)) return false;
    this.#taken += amount;
    this.#byShare.set(share, this.heldBy(share) + amount);
    return true;
  }

  /** Whether the share may have so much more now. */
  admits(share: string, amount: number): boolean {
    return this.heldBy(share) + amount <= this.total - this.#taken;
  }

  give(share: string, amount: number): void {
    const held = this.heldBy(share) - amount;
    this.#taken -= amount;
    if (held > 0) this.#byShare.set(share, held);
    else this.#byShare.delete(share);
  }
}
