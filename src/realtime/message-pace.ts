// The pace at which messages of WebSockets are handled: per socket, and per tenant (before `auth`: per client address).
// A message over the pace waits, and those behind it; a client that goes on sending is disconnected by the limit of
// waiting messages. A message of up to 1 KiB counts as one, a longer one as several. Times are milliseconds.
// Contract: neighbours#fair-shares, decisions#websocket.
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { Pace, SharePaces } from '../runtime/pace.ts';
import { addressShare, countFor, forClient } from '../runtime/work.ts';

const { perSecond, burst, tenantPerSecond, tenantBurst } = LIMITS.socketMessages;
const LENGTH_PER_MESSAGE = 1_024;

export class MessagePaces {
  readonly #shares = new SharePaces({ perSecond: tenantPerSecond, burst: tenantBurst });

  /** How long a message must wait. */
  take(socket: Pace, share: string, text: string, nowMs = performance.now()): number {
    const cost = 1 + text.length / LENGTH_PER_MESSAGE;
    return Math.max(socket.take(cost, nowMs), this.#shares.take(share, cost, nowMs));
  }
}

/** The messages of one socket, each handled as work of its tenant, or of the client's address before `auth`. */
export class SocketMessages {
  readonly #pace = new Pace({ perSecond, burst });
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
    // Within its burst a socket may have many messages waiting, and a tenant many sockets.
    await giveWay(tenantId || addressShare(this.address));
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
