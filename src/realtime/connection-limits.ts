// The limit on open connections. Connections hold leases in the broker, which all processes share. A lease is renewed while its connection
// lasts, and expires if its process dies. When the places that all tenants share are taken, the tenant with the most connections gives up
// its oldest one for a tenant that has fewer, so that two tenants cannot keep all places for good.
// Times are milliseconds. Failures: 503 while the broker is unavailable.
// Contract: interface#limits, neighbours#fair-shares.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../app.ts';
import type { QuotaUse } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { SharePaces } from '../runtime/pace.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { noticeUse } from '../usage/near-quota.ts';

const TTL_MS = 30_000;
const RENEW_MS = 10_000;
/** When no connection could be found to give up, the tenant is refused for this long: each search reads all leases. */
const NO_ROOM_MS = 250;
const PREFIXES = { streams: 'sse', sockets: 'ws' } as const;
/** The broker's channel of leases that were given up for another tenant. */
const GIVEN_UP_CHANNEL = 'leases-given-up';

/** The leases of one connection: one in each of the sets, all under the same member, which is the tenant's id and the connection's id. */
export interface ConnectionLease {
  readonly member: string;
  sets: readonly string[];
  /** Called once when the connection must make room for another tenant's connection; its leases are already gone then. */
  onGivenUp?: () => void;
}

export class ConnectionLeases {
  readonly #members = new Map<string, Set<string>>();
  readonly #held = new Map<string, ConnectionLease>();
  /** The time until which a tenant that found no room is refused. Cleared with each renewal. */
  readonly #noRoomUntil = new Map<string, number>();
  /** Limits openings by tenant: a client that opens streams again and again costs others more than open streams do. */
  readonly #openings = new SharePaces(LIMITS.connection.openings);
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(private readonly app: App) {
    this.#timer = setInterval(() => void this.#renew(), RENEW_MS);
    app.broker
      .subscribe(GIVEN_UP_CHANNEL, (member) => this.#giveUp(member))
      .catch((cause: unknown) => app.log.error('connections cannot make room for other tenants', { cause }));
  }

  /**
   * Acquires a lease for a connection of a tenant, once its rate limit admits one more. The lease must be within the tenant's quota, within
   * the limit that every tenant has, and within the limits of the `shared` sets, which all tenants share; null when one of them is
   * full. `use` is the use of the quota.
   */
  async acquire(
    { id, quotas }: Tenant,
    quota: 'streams' | 'sockets',
    shared: Readonly<Record<string, number>> = {},
  ): Promise<{ lease: ConnectionLease | null; use: QuotaUse | undefined }> {
    const waitMs = this.#openings.take(id, 1);
    if (waitMs > 0) await delay(waitMs);
    const set = `${PREFIXES[quota]}:${id}`;
    const limit = quotas[quota];
    const { sse, ws } = this.app.config;
    const max = (quota === 'streams' ? sse : ws).maxPerTenant;
    const lease = await this.#acquire(id, { [set]: Math.min(max, limit ?? max) }, shared);
    if (lease === null) this.app.refusals.count('CONNECTION_LIMIT');
    if (limit === undefined) return { lease, use: undefined };
    const used = await this.app.broker.leaseCount(set);
    noticeUse(this.app, id, quota, limit, used);
    return { lease, use: { quota, limit, used } };
  }

  async release({ member, sets }: ConnectionLease): Promise<void> {
    this.#held.delete(member);
    await Promise.all(sets.map((set) => this.#release(set, member)));
  }

  /** The leases of this process in the sets with this prefix. */
  count(prefix: string): number {
    let count = 0;
    for (const [set, members] of this.#members) if (set.startsWith(prefix)) count += members.size;
    return count;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Acquires a lease in every set, or in none. */
  async #acquire(
    tenantId: string,
    own: Readonly<Record<string, number>>,
    shared: Readonly<Record<string, number>>,
  ): Promise<ConnectionLease | null> {
    const lease: ConnectionLease = { member: `${tenantId}:${newId()}`, sets: [] };
    this.#held.set(lease.member, lease);
    try {
      for (const [set, limit] of [...Object.entries(own), ...Object.entries(shared)]) {
        const isTaken = await this.app.broker.lease(set, lease.member, limit, TTL_MS);
        if (!isTaken && !(set in shared && (await this.#takeOver(set, limit, tenantId, lease.member)))) {
          await this.release(lease);
          return null;
        }
        lease.sets = [...lease.sets, set];
        this.#members.set(set, (this.#members.get(set) ?? new Set()).add(lease.member));
      }
    } catch (cause) {
      await this.release(lease);
      throw cause;
    }
    return lease;
  }

  /** Takes over a lease of the tenant with the most leases; false when none can be given up. */
  async #takeOver(set: string, limit: number, tenantId: string, member: string): Promise<boolean> {
    const { broker } = this.app;
    const noRoomUntil = this.#noRoomUntil.get(tenantId) ?? Number.NEGATIVE_INFINITY;
    if (performance.now() < noRoomUntil) return false;
    const givenUp = await broker.makeRoom(set, tenantId, limit, LIMITS.streams.keptPerTenant);
    if (givenUp !== null) await broker.publish(GIVEN_UP_CHANNEL, givenUp);
    if (await broker.lease(set, member, limit, TTL_MS)) return true;
    this.#noRoomUntil.set(tenantId, performance.now() + NO_ROOM_MS);
    return false;
  }

  #giveUp(member: string): void {
    const lease = this.#held.get(member);
    if (lease === undefined) return;
    void this.release(lease);
    lease.onGivenUp?.();
  }

  async #release(set: string, member: string): Promise<void> {
    const members = this.#members.get(set);
    members?.delete(member);
    if (members?.size === 0) this.#members.delete(set);
    try {
      await this.app.broker.release(set, member);
    } catch (cause) {
      this.app.log.warn('cannot release a connection lease; it will expire', { cause });
    }
  }

  async #renew(): Promise<void> {
    this.#noRoomUntil.clear();
    try {
      const sets = [...this.#members];
      await Promise.all(sets.map(([set, members]) => this.app.broker.renew(set, [...members], TTL_MS)));
    } catch (cause) {
      this.app.log.warn('cannot renew the connection leases', { cause });
    }
  }
}
