// The live connections of this process by tenant, their limits, and the invalidations that make their access stale.
// Opened once, after the hub; closed before the server, so that streams end in order.
// Failures: 503 while the service stops or the broker is unavailable. Contract: decisions#sse, decisions#websocket.
import type { TenantCaller } from '../access/caller.ts';
import { type App, perApp } from '../app.ts';
import { type ChangeWaits, changeWaitsOf } from '../changes/waits.ts';
import { unavailable } from '../errors.ts';
import { hubOf } from '../events/hub.ts';
import { type StreamStart, takeSnapshot } from '../events/snapshot.ts';
import { LIMITS } from '../limits.ts';
import type { AccessSource } from './access-group.ts';
import { ConnectionLeases } from './connection-limits.ts';
import type { LiveConnection, Membership } from './membership.ts';
import { HeldMessages, MessagePaces } from './message-pace.ts';
import { TenantConnections } from './tenant-connections.ts';
import { UnauthenticatedSockets } from './unauthenticated-sockets.ts';
import { WaitingBytes } from './waiting-bytes.ts';

/** How often access is checked without an invalidation: keys expire, and invalidations may get lost. */
const REFRESH_MS = 300;

interface OpenTenant {
  connections: TenantConnections;
  /** Resolves to the function that detaches from the hub. */
  attached: Promise<() => void>;
  joining: number;
  /** Counts announced changes of access: data that was loaded while one was announced may be from before it. */
  announced: number;
}

export class Realtime {
  readonly leases: ConnectionLeases;
  readonly paces = new MessagePaces();
  readonly messages = new HeldMessages();
  readonly unauthenticated: UnauthenticatedSockets;
  readonly #tenants = new Map<string, OpenTenant>();
  readonly #waiting = new Map<string, WaitingBytes>();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #waits: ChangeWaits;
  #isClosing = false;

  constructor(private readonly app: App) {
    this.leases = new ConnectionLeases(app);
    this.#waits = changeWaitsOf(app);
    const onRefused = (): void => app.refusals.count('CONNECTION_LIMIT');
    this.unauthenticated = new UnauthenticatedSockets(LIMITS.unauthenticatedSockets, onRefused);
    app.metrics.gauge('svc_sse_connections', 'Open event streams.', () => this.leases.count('sse:'));
    app.metrics.gauge('svc_ws_connections', 'Authenticated WebSockets.', () => this.leases.count('ws:'));
    app.metrics.gauge('svc_ws_waiting', 'WebSockets not authenticated yet.', () => this.unauthenticated.size);
    app.metrics.gauge(
      'svc_ws_message_bytes',
      'Bytes of WebSocket messages not handled yet.',
      () => this.messages.bytes,
    );
    this.#timer = setInterval(() => this.#invalidateAccess(null, false), REFRESH_MS);
    app.invalidations.onRights((tenantId) => this.#invalidateAccess(tenantId, true));
  }

  /** The bytes that the tenant's connections have not read yet. */
  waitingOf(tenantId: string): WaitingBytes {
    const waiting = this.#waiting.get(tenantId) ?? new WaitingBytes();
    this.#waiting.set(tenantId, waiting);
    return waiting;
  }

  /** Throws 503 once the service stops. */
  requireOpen(): void {
    if (this.#isClosing) throw unavailable('the service is stopping');
  }

  /**
   * Adds a connection of the caller's tenant that subscribes to these entities, or to ALL_ENTITIES. It receives every
   * event committed after the snapshot `since`, and possibly some from before it, which it must skip.
   */
  async join(
    source: AccessSource,
    caller: TenantCaller,
    connection: LiveConnection,
    entities: readonly string[],
  ): Promise<{ membership: Membership; since: StreamStart }> {
    this.requireOpen();
    const { id } = caller.tenant;
    const hub = hubOf(this.app);
    const tenant = this.#openTenant(id);
    tenant.joining++;
    try {
      await tenant.attached;
      await hub.subscribe(id, entities);
      try {
        const since = await takeSnapshot(this.app.db);
        this.requireOpen();
        // Invalidations before the connection is added are missed, unless its group exists already.
        let announced: number;
        let current: TenantCaller;
        do {
          announced = tenant.announced;
          current = (await tenant.connections.currentCaller(source.key)) ?? (await source.load());
        } while (tenant.announced !== announced);
        if (this.#tenants.get(id) !== tenant) throw unavailable('events were lost; connect again');
        return { membership: tenant.connections.add(source, current, connection, entities), since };
      } catch (cause) {
        hub.unsubscribe(id, entities);
        throw cause;
      }
    } finally {
      tenant.joining--;
      this.#closeIfEmpty(tenant);
    }
  }

  /** Subscribes to one more entity; events in the snapshot must be skipped. Null when the membership has ended. */
  async addEntity(membership: Membership, entity: string): Promise<StreamStart | null> {
    const { tenant, entities } = membership;
    await hubOf(this.app).subscribe(tenant.tenantId, [entity]);
    if (tenant.setEntities(membership, [...entities, entity])) return takeSnapshot(this.app.db);
    hubOf(this.app).unsubscribe(tenant.tenantId, [entity]);
    return null;
  }

  removeEntity(membership: Membership, entity: string): void {
    const { tenant, entities } = membership;
    if (!entities.includes(entity)) return;
    const others = entities.filter((other) => other !== entity);
    if (tenant.setEntities(membership, others)) hubOf(this.app).unsubscribe(tenant.tenantId, [entity]);
  }

  leave(membership: Membership): void {
    const { tenant: connections, entities } = membership;
    if (!connections.remove(membership)) return;
    hubOf(this.app).unsubscribe(connections.tenantId, entities);
    const tenant = this.#tenants.get(connections.tenantId);
    if (tenant?.connections === connections) this.#closeIfEmpty(tenant);
  }

  /** Disconnects every connection and accepts no new one. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#timer);
    for (const { connections } of [...this.#tenants.values()]) connections.closeAll('stopping');
    this.leases.close();
    this.#waits.close();
  }

  #openTenant(tenantId: string): OpenTenant {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined) return known;
    const connections = new TenantConnections(this.app, tenantId, this.waitingOf(tenantId));
    const forget = (): void => {
      if (this.#tenants.get(tenantId) === tenant) this.#tenants.delete(tenantId);
    };
    const gap = (): void => {
      forget();
      connections.gap();
    };
    const attached = hubOf(this.app).attach(tenantId, {
      event: (event, length) => connections.event(event, length),
      drained: () => connections.drained(),
      gap,
    });
    const tenant: OpenTenant = { connections, attached, joining: 0, announced: 0 };
    attached.catch(forget);
    this.#tenants.set(tenantId, tenant);
    return tenant;
  }

  #closeIfEmpty(tenant: OpenTenant): void {
    const { connections, joining, attached } = tenant;
    if (!connections.isEmpty || joining > 0) return;
    if (this.#tenants.get(connections.tenantId) === tenant) this.#tenants.delete(connections.tenantId);
    if (this.waitingOf(connections.tenantId).readers.size === 0) this.#waiting.delete(connections.tenantId);
    attached.then(
      (detach) => detach(),
      // `join` reports the failure.
      () => undefined,
    );
  }

  #invalidateAccess(tenantId: string | null, isAnnounced: boolean): void {
    const tenants = tenantId === null ? [...this.#tenants.values()] : [this.#tenants.get(tenantId)];
    for (const tenant of tenants) {
      if (tenant === undefined) continue;
      if (isAnnounced) tenant.announced++;
      tenant.connections.invalidateAccess(isAnnounced);
    }
  }
}

export const realtimeOf = perApp((): Realtime => {
  throw unavailable('streams are not open yet');
});

/** Must be called once, after the hub is open. */
export function openRealtime(app: App): Realtime {
  const realtime = new Realtime(app);
  realtimeOf.set(app, realtime);
  return realtime;
}
