// The pace at which messages of WebSockets are handled: per socket, and per tenant (before `auth`: per client address).
// A message over the pace waits, and those behind it; a client that goes on sending is disconnected by the limit of
// waiting messages. A message of up to 1 KiB counts as one, a longer one as several. Times are milliseconds.
// Contract: neighbours#fair-shares, decisions#websocket.
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '../limits.ts';
import { countFor, forClient } from '../runtime/work.ts';

const { perSecond, burst, tenantPerSecond, tenantBurst } = LIMITS.socketMessages;
const LENGTH_PER_MESSAGE = 1_024;
/** Shares remembered before those at rest are forgotten. */
const SHARES_KEPT = 1_000;

/** Allows `burst` at once, and `perSecond` in the long run. */
export class Pace {
  #used = 0;
  #at = 0;

  constructor(
    private readonly perSecond: number,
    private readonly burst: number,
  ) {}

  /** Counts a cost. Returns how long to wait before the work. */
  take(cost: number, nowMs: number): number {
    this.#used = Math.max(0, this.#used - ((nowMs - this.#at) * this.perSecond) / 1_000) + cost;
    this.#at = nowMs;
    return Math.max(0, ((this.#used - this.burst) / this.perSecond) * 1_000);
  }

  isAtRest(nowMs: number): boolean {
    return (this.#used * 1_000) / this.perSecond <= nowMs - this.#at;
  }
}

export class MessagePaces {
  readonly #shares = new Map<string, Pace>();

  /** How long a message must wait. */
  take(socket: Pace, share: string, text: string, nowMs = performance.now()): number {
    const cost = 1 + text.length / LENGTH_PER_MESSAGE;
    const known = this.#shares.get(share) ?? this.#newShare(share, nowMs);
    return Math.max(socket.take(cost, nowMs), known.take(cost, nowMs));
  }

  #newShare(share: string, nowMs: number): Pace {
    if (this.#shares.size >= SHARES_KEPT) {
      for (const [name, pace] of this.#shares) if (pace.isAtRest(nowMs)) this.#shares.delete(name);
    }
    const pace = new Pace(tenantPerSecond, tenantBurst);
    this.#shares.set(share, pace);
    return pace;
  }
}

/** The messages of one socket, each handled as work of its tenant, or of the client's address before `auth`. */
export class SocketMessages {
  readonly #pace = new Pace(perSecond, burst);
  #gone: AbortController | undefined;
  #isClosed = false;

  constructor(
    private readonly paces: MessagePaces,
    private readonly address: string,
  ) {}

  /** Handles a message in its turn, unless the socket has closed by then. `tenantId` is empty before `auth`. */
  async handle(tenantId: string, text: string, handle: () => Promise<void>): Promise<void> {
    const waitMs = this.paces.take(this.#pace, tenantId || this.address, text);
    if (waitMs > 0) await delay(waitMs);
    if (this.#isClosed) return;
    await forClient(
      this.address,
      () => this.#signal(),
      null,
      () => {
        if (tenantId !== '') countFor(tenantId, false);
        return handle();
      },
    );
  }

  /** Stops the work in progress. */
  close(): void {
    this.#isClosed = true;
    this.#gone?.abort();
  }

  /** Made when it is first asked for: few messages need it. */
  #signal(): AbortSignal {
    this.#gone ??= new AbortController();
    if (this.#isClosed) this.#gone.abort();
    return this.#gone.signal;
  }
}
