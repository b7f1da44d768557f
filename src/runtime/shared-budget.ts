// An amount that all clients share, such as places or bytes. A share, such as a tenant or a client's network, may hold as much as is still
// free afterwards. A share that is alone therefore gets half, and there is always room for a share that holds little. Shares that hold
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

  /** Takes an amount; false when the share may not have that much more now. */
  take(share: string, amount: number): boolean {
    if (!this.admits(share, amount)) return false;
    this.#taken += amount;
    this.#byShare.set(share, this.heldBy(share) + amount);
    return true;
  }

  /** Whether the share may have that much more now. */
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
