// The WebSockets of this process that have not authenticated yet, counted in all and for each client address: what
// anybody may open and nobody answers for is bounded. Whoever enters leaves exactly once.
// Contract: decisions#websocket.

export class UnauthenticatedLimit {
  /** Those of each address; none that is 0. */
  readonly #counts = new Map<string, number>();
  #size = 0;

  constructor(private readonly limits: { waitingPerAddress: number; waiting: number }) {}

  get size(): number {
    return this.#size;
  }

  /** False when there is no room. */
  acquire(address: string): boolean {
    const count = this.#counts.get(address) ?? 0;
    if (this.#size >= this.limits.waiting || count >= this.limits.waitingPerAddress) return false;
    this.#counts.set(address, count + 1);
    this.#size++;
    return true;
  }

  release(address: string): void {
    const count = this.#counts.get(address) ?? 0;
    if (count > 1) this.#counts.set(address, count - 1);
    else this.#counts.delete(address);
    this.#size--;
  }
}
