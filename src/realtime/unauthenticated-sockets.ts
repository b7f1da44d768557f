// The WebSockets of this process that have not authenticated yet. They are limited by client address and in total. When all places are
// taken, the address with the most sockets gives up its oldest one for an address that has fewer, so that a few addresses cannot keep
// others out.
// Contract: decisions#websocket, neighbours#fair-shares.
interface Waiting {
  address: string;
  /** Called once, when the socket must make room; its place is already free then. */
  onGivenUp(): void;
}

export class UnauthenticatedSockets {
  /** By address, the oldest first; never empty. */
  readonly #byAddress = new Map<string, Set<Waiting>>();
  #size = 0;

  constructor(
    private readonly limits: { perAddress: number; total: number },
    private readonly onRefused: () => void = () => {},
  ) {}

  get size(): number {
    return this.#size;
  }

  /** Takes a place; null at the limit. Release the place, unless it was given up. */
  acquire(address: string, onGivenUp: () => void): Waiting | null {
    const count = this.#byAddress.get(address)?.size ?? 0;
    if (count >= this.limits.perAddress || (this.#size >= this.limits.total && !this.#makeRoom(count))) {
      this.onRefused();
      return null;
    }
    const waiting = { address, onGivenUp };
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? new Set()).add(waiting));
    this.#size++;
    return waiting;
  }

  /** Idempotent. */
  release(waiting: Waiting): void {
    const ofAddress = this.#byAddress.get(waiting.address);
    if (ofAddress?.delete(waiting) !== true) return;
    if (ofAddress.size === 0) this.#byAddress.delete(waiting.address);
    this.#size--;
  }

  /** Ends the oldest socket of the address with the most; false if that address has no more than `count + 1` sockets. */
  #makeRoom(count: number): boolean {
    let most: ReadonlySet<Waiting> = new Set();
    for (const ofAddress of this.#byAddress.values()) if (ofAddress.size > most.size) most = ofAddress;
    const [oldest] = most;
    if (oldest === undefined || most.size <= count + 1) return false;
    this.release(oldest);
    oldest.onGivenUp();
    return true;
  }
}

export type { Waiting as UnauthenticatedSocket };
