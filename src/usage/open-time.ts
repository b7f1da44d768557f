// How long the streams and sockets of each tenant have been open in this process. The time is added to the counters
// while they are open, not at their end, so that a connection of several days counts on each of them.
// Times are milliseconds. Contract: neighbours#usage-and-quotas.
import { type App, perApp } from '../app.ts';

export type ConnectionKind = 'stream' | 'socket';

/** The connections that are open, and until when their time has been added to the counters. */
interface OpenConnections {
  stream: number;
  socket: number;
  countedTo: number;
}

class OpenTime {
  readonly #byTenant = new Map<string, OpenConnections>();

  constructor(private readonly app: App) {}

  /** Counts a connection of the tenant until the function that it returns is called. */
  opened(tenantId: string, kind: ConnectionKind): () => void {
    const now = performance.now();
    const connections = this.#byTenant.get(tenantId) ?? { stream: 0, socket: 0, countedTo: now };
    this.#byTenant.set(tenantId, connections);
    this.#count(tenantId, connections, now);
    connections[kind] += 1;
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.#count(tenantId, connections, performance.now());
      connections[kind] -= 1;
      if (connections.stream + connections.socket === 0) this.#byTenant.delete(tenantId);
    };
  }

  /** Adds the time up to now to the counters. */
  settle(): void {
    const now = performance.now();
    for (const [tenantId, connections] of this.#byTenant) this.#count(tenantId, connections, now);
  }

  #count(tenantId: string, connections: OpenConnections, now: number): void {
    const counts = this.app.counters.of(tenantId);
    const ms = now - connections.countedTo;
    counts.streamMs += ms * connections.stream;
    counts.socketMs += ms * connections.socket;
    connections.countedTo = now;
  }
}

export const openTimeOf = perApp((app) => new OpenTime(app));
