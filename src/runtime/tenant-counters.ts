// What each tenant has used in this process since the process started. Requests, statements, streams and deliveries add
// to it as they end; metrics show it, and usage-writer.ts adds what is new to the usage of the day.
// Contract: neighbours#who-does-what, neighbours#usage-and-quotas.

/** Durations are milliseconds. */
export interface TenantCounts {
  requests: number;
  reads: number;
  /** Records created, changed or deleted. */
  writes: number;
  events: number;
  /** Delivery attempts that succeeded, and deliveries that failed for good. */
  deliveries: number;
  failedDeliveries: number;
  streamMs: number;
  socketMs: number;
  /** Bytes of response bodies, stream events and socket messages. */
  sentBytes: number;
  statementMs: number;
}

export class TenantCounters {
  readonly #byTenant = new Map<string, TenantCounts>();

  /** The tenant's counts, to be added to. */
  of(tenantId: string): TenantCounts {
    const known = this.#byTenant.get(tenantId);
    if (known !== undefined) return known;
    const counts = newCounts();
    this.#byTenant.set(tenantId, counts);
    return counts;
  }

  entries(): IterableIterator<[tenantId: string, counts: Readonly<TenantCounts>]> {
    return this.#byTenant.entries();
  }

  /** Forgets a tenant that has been deleted. */
  delete(tenantId: string): void {
    this.#byTenant.delete(tenantId);
  }
}

function newCounts(): TenantCounts {
  return {
    requests: 0,
    reads: 0,
    writes: 0,
    events: 0,
    deliveries: 0,
    failedDeliveries: 0,
    streamMs: 0,
    socketMs: 0,
    sentBytes: 0,
    statementMs: 0,
  };
}
