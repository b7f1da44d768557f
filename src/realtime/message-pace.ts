// Rate limits on the messages of WebSockets: per socket, and per tenant (before `auth`: per client address). A message over the limit
// waits, and so do the messages behind it, until it is handled or the socket closes. A client that keeps sending is disconnected by
// the limit on waiting messages, which many sockets share. A message of up to 1 KiB counts as one, a longer one as several. Times are
// milliseconds.
// Contract: neighbours#fair-shares, neighbours#connections, decisions#websocket.
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { Pace, SharePaces } from '../runtime/pace.ts';
import { SharedBudget } from '../runtime/shared-budget.ts';
import { addressShare, countFor, forClient } from '../runtime/work.ts';

const { perSecond, burst, tenantPerSecond, tenantBurst, waitMaxMs } = LIMITS.socketMessages;
const { strangers, tenants } = LIMITS.socketMessageBytes;
const LENGTH_PER_MESSAGE = 1_024;

export class MessagePaces {
  readonly #shares = new SharePaces({ perSecond: tenantPerSecond, burst: tenantBurst, waitMaxMs });

  /** How long a message must wait. */
  take(socket: Pace, share: string, text: string, nowMs = performance.now()): number {
    const cost = 1 + text.length / LENGTH_PER_MESSAGE;
    return Math.max(socket.take(cost, nowMs), this.#shares.take(share, cost, nowMs));
  }
}

/** The bytes of messages that have arrived and are not handled yet. Sockets before `auth` have a separate budget, by network. */
export class HeldMessages {
  readonly #strangers = new SharedBudget(strangers);
  readonly #tenants = new SharedBudget(tenants);

  get bytes(): number {
    return this.#strangers.taken + this.#tenants.taken;
  }

  /** Takes room for a message; null when the tenant, or the network, holds as much as is still free. `tenantId` is empty before `auth`. */
  hold(tenantId: string, network: string, bytes: number): (() => void) | null {
    const [budget, share] = tenantId === '' ? [this.#strangers, network] : [this.#tenants, tenantId];
    return budget.take(share, bytes) ? () => budget.give(share, bytes) : null;
  }
}

/** The messages of one socket. Each is handled as work of the socket's tenant, or before `auth` of the client's address. */
export class SocketMessages {
  readonly #pace = new Pace({ perSecond, burst });
  #gone: AbortController | undefined;
  #endWait: (() => void) | undefined;
  #isClosed = false;

  constructor(
    private readonly paces: MessagePaces,
    private readonly address: string,
  ) {}

  /** Handles a message in its turn, unless the socket has closed by then. `tenantId` is empty before `auth`. */
  async handle(tenantId: string, text: string, handle: () => Promise<void>): Promise<void> {
    const waitMs = this.paces.take(this.#pace, tenantId || this.address, text);
    if (waitMs > 0) await this.#wait(waitMs);
    // Within its burst, a socket may have many messages waiting, and a tenant may have many sockets.
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

  /** Stops the work in progress, or the wait for it. */
  close(): void {
    this.#isClosed = true;
    this.#endWait?.();
    this.#gone?.abort();
  }

  async #wait(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    this.#endWait = () => {
      clearTimeout(timer);
      resolve();
    };
    await promise;
    this.#endWait = undefined;
  }

  /** Created on first use: few messages need it. */
  #signal(): AbortSignal {
    this.#gone ??= new AbortController();
    if (this.#isClosed) this.#gone.abort();
    return this.#gone.signal;
  }
}
