// The open connections of this process: each tenant's audience, the places they take, and what makes
// their rights doubtful. Opened once, after the hub; closed before the server, so that streams end in order.
// Failures: 503 while the service stops or the broker is away. Contract: decisions#sse, decisions#websocket.
import type { TenantCaller } from '../access/caller.ts';
import { type App, perApp } from '../app.ts';
import { unavailable } from '../errors.ts';
import { hubOf } from '../events/hub.ts';
import { type Snapshot, takeSnapshot } from '../events/snapshot.ts';
import { LIMITS } from '../limits.ts';
import type { AccessSource } from './access-group.ts';
import { ConnectionLeases } from './connection-leases.ts';
import { type LiveConnection, type Membership, TenantConnections } from './tenant-connections.ts';
import { UnauthenticatedLimit } from './unauthenticated-limit.ts';

/** How often rights are looked up with nothing announced: keys expire, and announcements get lost. */
const CHECK_MS = 500;

interface OpenTenant {
  connections: TenantConnections;
  /** Resolves to the function that stops watching. */
  watching: Promise<() => void>;
  /** Listeners on their way in. */
  joining: number;
}

export class Realtime {
  readonly leases: ConnectionLeases;
  readonly unauthenticated = new UnauthenticatedLimit(LIMITS.socket);
  readonly #app: App;
  readonly #tenants = new Map<string, OpenTenant>();
  readonly #timer: ReturnType<typeof setInterval>;
  #isClosing = false;

  constructor(app: App) {
    this.#app = app;
    this.leases = new ConnectionLeases(app);
    app.metrics.gauge('svc_sse_connections', 'Open event streams.', () => this.leases.count('sse:'));
    app.metrics.gauge('svc_ws_connections', 'Authenticated WebSockets.', () => this.leases.count('ws:'));
    app.metrics.gauge('svc_ws_waiting', 'WebSockets not authenticated yet.', () => this.unauthenticated.size);
    this.#timer = setInterval(() => this.#refreshAccess(), CHECK_MS);
    for (const topic of ['credential', 'bot'] as const) app.invalidations.on(topic, () => this.#invalidateAccess(null));
    for (const topic of ['tenant', 'role'] as const)
      app.invalidations.on(topic, (tenantId) => this.#invalidateAccess(tenantId));
    app.invalidations.on('user', (key) => this.#invalidateAccess(key === null ? null : (key.split(':')[0] ?? null)));
  }

  /** Throws 503 once the service stops. */
  requireOpen(): void {
    if (this.#isClosing) throw unavailable('the service is stopping');
  }

  /**
   * Seats a listener of the caller's tenant, to listen to these entities (see EVERYTHING). `since` is asked for when
   * everything later will come; what it holds is not to be told.
   */
  async join(
    ticket: AccessSource,
    caller: TenantCaller,
    listener: LiveConnection,
    entities: readonly string[],
  ): Promise<{ seat: Membership; since: Snapshot }> {
    this.requireOpen();
    const { id } = caller.tenant;
    const hub = hubOf(this.#app);
    const hall = this.#openTenant(id);
    hall.joining++;
    try {
      await hall.watching;
      await hub.subscribe(id, entities);
      try {
        const since = await takeSnapshot(this.#app.db);
        this.requireOpen();
        // What changed on the way in was not heard of, unless others are seated with the same rights.
        const current = (await hall.connections.currentCaller(ticket.key)) ?? (await ticket.load());
        if (this.#tenants.get(id) !== hall) throw unavailable('events were lost; connect again');
        return { seat: hall.connections.add(ticket, current, listener, entities), since };
      } catch (cause) {
        hub.unsubscribe(id, entities);
        throw cause;
      }
    } finally {
      hall.joining--;
      this.#closeWhenEmpty(hall);
    }
  }

  /** A seat listens to one entity more; what the snapshot holds is not to be told. Null when it was left meanwhile. */
  async addEntity(seat: Membership, entity: string): Promise<Snapshot | null> {
    const { tenant, entities } = seat;
    await hubOf(this.#app).subscribe(tenant.tenantId, [entity]);
    if (tenant.setEntities(seat, [...entities, entity])) return takeSnapshot(this.#app.db);
    hubOf(this.#app).unsubscribe(tenant.tenantId, [entity]);
    return null;
  }

  removeEntity(seat: Membership, entity: string): void {
    const { tenant, entities } = seat;
    if (!entities.includes(entity)) return;
    const others = entities.filter((other) => other !== entity);
    if (tenant.setEntities(seat, others)) hubOf(this.#app).unsubscribe(tenant.tenantId, [entity]);
  }

  leave(seat: Membership): void {
    const { tenant, entities } = seat;
    if (!tenant.remove(seat)) return;
    hubOf(this.#app).unsubscribe(tenant.tenantId, entities);
    const hall = this.#tenants.get(tenant.tenantId);
    if (hall?.connections === tenant) this.#closeWhenEmpty(hall);
  }

  /** Ends every connection and lets no new one in. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#timer);
    for (const { connections } of [...this.#tenants.values()]) connections.closeAll('stopping');
    this.leases.close();
  }

  #openTenant(tenantId: string): OpenTenant {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined) return known;
    const connections = new TenantConnections(this.#app, tenantId);
    const hall: OpenTenant = {
      connections,
      watching: hubOf(this.#app).attach(tenantId, {
        event: (event) => connections.event(event),
        gap: () => {
          if (this.#tenants.get(tenantId) === hall) this.#tenants.delete(tenantId);
          connections.gap();
        },
      }),
      joining: 0,
    };
    hall.watching.catch(() => {
      if (this.#tenants.get(tenantId) === hall) this.#tenants.delete(tenantId);
    });
    this.#tenants.set(tenantId, hall);
    return hall;
  }

  #closeWhenEmpty(hall: OpenTenant): void {
    const { connections, joining, watching } = hall;
    if (!connections.isEmpty || joining > 0) return;
    if (this.#tenants.get(connections.tenantId) === hall) this.#tenants.delete(connections.tenantId);
    watching.then(
      (unwatch) => unwatch(),
      // Said where it was asked for.
      () => undefined,
    );
  }

  #refreshAccess(): void {
    for (const { connections } of [...this.#tenants.values()]) connections.refreshAccess();
  }

  #invalidateAccess(tenantId: string | null): void {
    for (const [id, { connections }] of [...this.#tenants])
      if (tenantId === null || tenantId === id) connections.invalidateAccess();
  }
}

const opened = perApp((): Realtime => {
  throw unavailable('streams are not open yet');
});

/** Opens the process's part; once, after the hub. */
export function openRealtime(app: App): Realtime {
  const realtime = new Realtime(app);
  opened.set(app, realtime);
  return realtime;
}

export function realtimeOf(app: App): Realtime {
  return opened(app);
}
