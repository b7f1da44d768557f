// Idle connections to receivers, for the next deliveries of the same subscription. A connection is never shared with another subscription,
// origin or set of checked addresses. It is closed before receivers usually close idle connections. The number of idle connections is
// bounded for each tenant and in total. Times are ms.
// Contract: decisions#webhook-requests, neighbours#fair-shares.
import { LIMITS } from '../../limits.ts';
import type { Connection } from './connection.ts';
import type { Receiver } from './receiver.ts';

/** The tenant and subscription for which a request is sent. */
export interface Sender {
  tenantId: string;
  subscriptionId: string;
}

interface Idle {
  connection: Connection;
  tenantId: string;
  key: string;
  since: number;
}

const { idleMs, perSubscription, perTenant, perProcess } = LIMITS.webhook;

export class Connections {
  readonly #byKey = new Map<string, Idle[]>();
  readonly #countOf = new Map<string, number>();
  /** All idle connections, the one that has been idle for longest first. */
  readonly #all = new Set<Idle>();
  #sweeping: ReturnType<typeof setInterval> | undefined;
  #isClosed = false;

  /** The key of the sender's idle connections to the receiver. */
  keyOf({ subscriptionId }: Sender, { url, addresses }: Receiver): string {
    const [only] = addresses;
    // The resolver returns a name's addresses in varying order.
    const at = addresses.length === 1 ? only?.address : addresses.map(({ address }) => address).sort();
    return `${subscriptionId} ${url.origin} ${at}`;
  }

  /** The connection that has been idle for the shortest time; it is no longer kept. */
  take(key: string): Connection | undefined {
    const idle = this.#byKey.get(key)?.at(-1);
    if (idle === undefined) return undefined;
    this.#remove(idle);
    return idle.connection;
  }

  /** Keeps an idle connection, or closes it when enough are kept. */
  keep(key: string, { tenantId }: Sender, connection: Connection): void {
    const ofKey = this.#byKey.get(key) ?? [];
    const ofTenant = this.#countOf.get(tenantId) ?? 0;
    const isFull = ofKey.length >= perSubscription || ofTenant >= perTenant || this.#all.size >= perProcess;
    if (isFull || this.#isClosed || !connection.isOpen) {
      connection.close();
      return;
    }
    const idle: Idle = { connection, tenantId, key, since: Date.now() };
    ofKey.push(idle);
    this.#byKey.set(key, ofKey);
    this.#countOf.set(tenantId, ofTenant + 1);
    this.#all.add(idle);
    connection.onClosed = () => this.#remove(idle);
    this.#sweeping ??= setInterval(() => this.#sweep(), idleMs / 2);
  }

  /** Closes all idle connections now, and connections in use once they become idle. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#sweeping);
    for (const { connection } of [...this.#all]) connection.close();
  }

  #sweep(): void {
    const before = Date.now() - idleMs;
    for (const { connection, since } of [...this.#all]) {
      if (since > before) break;
      connection.close();
    }
    if (this.#all.size > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }

  #remove(idle: Idle): void {
    if (!this.#all.delete(idle)) return;
    const { connection, key, tenantId } = idle;
    connection.onClosed = null;
    const ofKey = this.#byKey.get(key)?.filter((other) => other !== idle) ?? [];
    if (ofKey.length > 0) this.#byKey.set(key, ofKey);
    else this.#byKey.delete(key);
    const left = (this.#countOf.get(tenantId) ?? 1) - 1;
    if (left > 0) this.#countOf.set(tenantId, left);
    else this.#countOf.delete(tenantId);
  }
}
