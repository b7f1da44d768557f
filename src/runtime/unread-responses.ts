// The bytes of large responses that clients have not read yet, in total and by tenant. A tenant that leaves much unread gets no further
// large response until it has read some. When the total is too large, the tenant with the most unread bytes loses the response that its
// client has left unread for longest; other tenants keep theirs, and are not refused.
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { rateLimited, type ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';

/** A response that is being read. */
export interface Unread {
  /** Called when the response is given up. */
  readonly cut: () => void;
  left: number;
  /** When its client last read some of it, as the number of all reads so far. */
  takenAt: number;
}

export class UnreadResponses {
  readonly #byShare = new Map<string, { bytes: number; responses: Set<Unread> }>();
  #bytes = 0;
  #takings = 0;

  constructor(
    private readonly max: number,
    private readonly shareMax: number,
  ) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether the share has left so much unread that it gets no further large response. */
  isFull(share: string): boolean {
    return (this.#byShare.get(share)?.bytes ?? 0) >= this.shareMax;
  }

  /** Adds a response. */
  add(share: string, bytes: number, cut: () => void): Unread {
    const known = this.#byShare.get(share) ?? { bytes: 0, responses: new Set() };
    this.#byShare.set(share, known);
    const unread = { cut, left: bytes, takenAt: ++this.#takings };
    known.responses.add(unread);
    known.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.max && this.#cutOne(unread));
    return unread;
  }

  /** The client has read some of it; without `bytes`, it has read all of it or disconnected. */
  taken(share: string, unread: Unread, bytes = unread.left): void {
    const known = this.#byShare.get(share);
    if (known?.responses.has(unread) !== true) return;
    unread.left -= bytes;
    unread.takenAt = ++this.#takings;
    known.bytes -= bytes;
    this.#bytes -= bytes;
    if (unread.left > 0) return;
    known.responses.delete(unread);
    if (known.responses.size === 0) this.#byShare.delete(share);
  }

  /** Cuts one response of the share with the most unread bytes, but not the newest of all; false when there is none. */
  #cutOne(newest: Unread): boolean {
    const [most] = [...this.#byShare].sort(([, a], [, b]) => b.bytes - a.bytes);
    if (most === undefined) return false;
    const [share, { responses }] = most;
    const others = [...responses].filter((response) => response !== newest);
    const [stalled] = others.sort((a, b) => a.takenAt - b.takenAt);
    if (stalled === undefined) return false;
    this.taken(share, stalled);
    stalled.cut();
    return true;
  }
}

/** The unread responses of this process. */
export const unreadResponses = new UnreadResponses(LIMITS.response.unreadMax, LIMITS.response.unreadPerTenant);

/** 429: the tenant has to read its other responses first. */
export function tooMuchUnread(): ServiceError {
  return rateLimited('too many large responses of yours have not been read; read them, or close their connections', 5);
}
