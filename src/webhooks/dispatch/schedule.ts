// Schedules the claims of subscriptions. The sources are commits of this process, the broker's schedule of deliveries that
// any process delayed, and a sweep of the database, which finds what the other two have lost. A claim for a
// subscription without due deliveries is harmless.
// Times are milliseconds since the epoch. Contract: decisions#deliveries.
import type { App } from '../../app.ts';
import { EVERY_ENTITY } from '../../events/entity-change.ts';
import type { CommitNotice } from '../../events/publication.ts';
import { LIMITS } from '../../limits.ts';
import { sql } from '../../runtime/sql.ts';

const SHARED_SET = 'webhooks';
/** Between two reads of the shared schedule. */
const POLL_MS = 250;
const TENANTS_CACHED = 10_000;
const TIMES_PER_SUBSCRIPTION = 32;
/** Matches every subscription of the tenant. */
const ANY_CHANGE = '*';

/** The entity's id and the event type. */
type ChangeKey = string;

interface Matches {
  id: string;
  tenant_id: string;
  matches: ChangeKey[];
}

/** The subscriptions to the change's entity, and those to all entities. */
function matching(known: ReadonlyMap<ChangeKey, readonly string[]>, change: ChangeKey): readonly string[] {
  const own = known.get(change) ?? [];
  if (change === ANY_CHANGE) return own;
  const every = known.get(`${EVERY_ENTITY}${change.slice(change.indexOf(' '))}`);
  return every === undefined ? own : [...own, ...every];
}

export class Schedule {
  /** Scheduled claim times by subscription, ascending: an early claim does not replace a later one. */
  readonly #due = new Map<string, readonly number[]>();
  /** Committed changes by tenant whose subscriptions are not scheduled yet. */
  readonly #changed = new Map<string, Set<ChangeKey>>();
  /** The tenants of subscriptions, as far as they are known. */
  readonly #tenants = new Map<string, string>();
  /** Active subscriptions by tenant and by the changes they match; those that judge changes first match none. */
  readonly #subscriptions = new Map<string, ReadonlyMap<ChangeKey, readonly string[]>>();
  #invalidations = 0;
  #sweepAt = 0;
  #pollAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(
    private readonly app: App,
    private readonly wake: () => void,
  ) {
    app.invalidations.on('webhook', (tenantIds) => this.#invalidate(tenantIds));
  }

  /** Schedules the subscriptions that match the change. */
  onCommitted({ tenantId, change }: CommitNotice): void {
    if (change === null) return;
    this.#markChanged(tenantId, change === undefined ? ANY_CHANGE : `${change.entity.id} ${change.type}`);
  }

  add(subscriptionId: string, atMs: number): void {
    this.#insert(subscriptionId, atMs);
    this.#setTimer();
  }

  /** Schedules a claim by any process. While the broker is unavailable, this process and the sweep still make it. */
  addShared(subscriptionId: string, atMs: number): void {
    this.add(subscriptionId, atMs);
    this.app.broker
      .schedule(SHARED_SET, subscriptionId, atMs)
      .catch((error) => this.app.log.debug('a delivery is missing from the shared schedule', { error }));
  }

  /** Schedules a subscription of a tenant, which this process may not know yet. */
  addOf(tenantId: string, subscriptionId: string, atMs: number): void {
    this.#tenants.set(subscriptionId, tenantId);
    this.add(subscriptionId, atMs);
  }

  /** The subscription's tenant; undefined until this process has read it. */
  tenantOf(subscriptionId: string): string | undefined {
    return this.#tenants.get(subscriptionId);
  }

  /** Takes at most `limit` subscriptions whose claim is due, of each tenant in turn. */
  async takeDue(limit: number): Promise<string[]> {
    // The first one finds what the last process has left.
    if (this.#sweepAt === 0) await this.#sweep();
    else if (Date.now() >= this.#sweepAt) void this.#sweepAside();
    if (this.#changed.size > 0) await this.#scheduleChanged();
    // Not awaited: claims must not wait for an unavailable broker.
    if (Date.now() >= this.#pollAt) void this.#pollShared(limit);
    const now = Date.now();
    const taken = this.#dueInTurn(limit, now);
    for (const id of taken) {
      const later = (this.#due.get(id) ?? []).filter((atMs) => atMs > now);
      // Goes behind the subscriptions that are already waiting.
      this.#due.delete(id);
      if (later.length > 0) this.#due.set(id, later);
    }
    this.#setTimer();
    return taken;
  }

  #dueInTurn(limit: number, now: number): string[] {
    const byTenant = new Map<string, string[]>();
    for (const [id, times] of this.#due) {
      if ((times[0] as number) > now) continue;
      const tenant = this.#tenants.get(id) ?? id;
      const known = byTenant.get(tenant);
      if (known === undefined) byTenant.set(tenant, [id]);
      else known.push(id);
    }
    const taken: string[] = [];
    for (let turn = 0; byTenant.size > 0 && taken.length < limit; turn++) {
      for (const [tenant, ids] of byTenant) {
        const id = ids[turn];
        if (id === undefined) byTenant.delete(tenant);
        else if (taken.length < limit) taken.push(id);
      }
    }
    return taken;
  }

  /** The cached active subscriptions that match the change and have no claim due; none while the tenant is not cached. */
  idleFor(tenantId: string, entityId: string, type: string, nowMs: number): string[] {
    const known = this.#isClosed ? undefined : this.#subscriptions.get(tenantId);
    const isDue = (id: string): boolean => (this.#due.get(id)?.[0] ?? Number.POSITIVE_INFINITY) <= nowMs;
    if (known === undefined) return [];
    return matching(known, `${entityId} ${type}`).filter((id) => !isDue(id));
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #insert(subscriptionId: string, atMs: number): void {
    const known = this.#due.get(subscriptionId) ?? [];
    if (known.includes(atMs)) return;
    const times = [...known, atMs].sort((a, b) => a - b);
    this.#due.set(subscriptionId, times.slice(0, TIMES_PER_SUBSCRIPTION));
  }

  #markChanged(tenantId: string, change: ChangeKey): void {
    const known = this.#subscriptions.get(tenantId);
    if (this.#isClosed || (known !== undefined && matching(known, change).length === 0)) return;
    const changes = this.#changed.get(tenantId);
    if (changes === undefined) this.#changed.set(tenantId, new Set([change]));
    else changes.add(change);
    this.wake();
  }

  #invalidate(tenantIds: readonly string[] | null): void {
    this.#invalidations++;
    if (tenantIds === null) this.#subscriptions.clear();
    for (const tenantId of tenantIds ?? []) {
      this.#subscriptions.delete(tenantId);
      this.#markChanged(tenantId, ANY_CHANGE);
    }
  }

  async #scheduleChanged(): Promise<void> {
    const changed = [...this.#changed];
    this.#changed.clear();
    const missing = changed.map(([tenant]) => tenant).filter((tenant) => !this.#subscriptions.has(tenant));
    if (missing.length > 0) await this.#loadSubscriptions(missing);
    const now = Date.now();
    for (const [tenant, changes] of changed) {
      const known = this.#subscriptions.get(tenant);
      if (known === undefined) continue;
      for (const change of changes) for (const id of matching(known, change)) this.#insert(id, now);
    }
  }

  async #loadSubscriptions(tenants: readonly string[]): Promise<void> {
    const invalidations = this.#invalidations;
    const rows = await this.app.db.rows<Matches>(sql`
      select id, tenant_id,
        case when is_judged then '{}' else array(select entity_id || ' ' || unnest(event_types)) end as matches
      from platform.webhook_subscriptions
      where tenant_id = any(${[...tenants]}::uuid[]) and is_active`);
    // A subscription created during the query may be missing.
    if (this.#invalidations !== invalidations) return this.#loadSubscriptions(tenants);
    if (this.#subscriptions.size > TENANTS_CACHED) {
      this.#subscriptions.clear();
      this.#tenants.clear();
    }
    for (const { id, tenant_id } of rows) this.#tenants.set(id, tenant_id);
    const byTenant = Map.groupBy(rows, (row) => row.tenant_id);
    for (const tenant of tenants) {
      const byChange = new Map<ChangeKey, string[]>();
      for (const { id, matches } of byTenant.get(tenant) ?? []) {
        for (const change of [ANY_CHANGE, ...matches]) byChange.set(change, [...(byChange.get(change) ?? []), id]);
      }
      this.#subscriptions.set(tenant, byChange);
    }
  }

  async #pollShared(limit: number): Promise<void> {
    this.#pollAt = Number.POSITIVE_INFINITY;
    try {
      const ids = await this.app.broker.takeDue(SHARED_SET, limit);
      const now = Date.now();
      for (const id of ids) this.#insert(id, now);
      if (ids.length > 0) this.wake();
    } catch (error) {
      this.app.log.debug('cannot read the shared schedule of deliveries', { error });
    }
    this.#pollAt = Date.now() + POLL_MS;
  }

  /** Holds up no claim: while an older snapshot is open, the sweep reads each delivery that has ended since, 0.3 s for a million. */
  async #sweepAside(): Promise<void> {
    this.#sweepAt = Number.POSITIVE_INFINITY;
    try {
      await this.#sweep();
      this.wake();
    } catch (error) {
      this.#sweepAt = Date.now() + LIMITS.webhook.sweepMs;
      if (!this.#isClosed) this.app.log.warn('deliveries whose notice is lost were not looked for', { error });
    }
  }

  /** Schedules every subscription with a pending delivery. From the index alone: claims ask for the tenant as well. */
  async #sweep(): Promise<void> {
    const rows = await this.app.db.slow.rows<{ id: string; tenant_id: string; due_at: string }>(sql`
      select s.id, s.tenant_id, d.due_at
      from platform.webhook_subscriptions as s
      cross join lateral (
        select min(d.next_at) as due_at from platform.webhook_deliveries as d
        where d.subscription_id = s.id and d.status = 'pending'
      ) as d
      where s.is_active and d.due_at is not null`);
    this.#sweepAt = Date.now() + LIMITS.webhook.sweepMs * (0.9 + Math.random() * 0.2);
    for (const { id, tenant_id, due_at } of rows) {
      this.#tenants.set(id, tenant_id);
      this.#insert(id, Date.parse(due_at) + 1);
    }
  }

  /** Wakes the worker at the next scheduled time. */
  #setTimer(): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    let next = Number.POSITIVE_INFINITY;
    for (const [atMs = next] of this.#due.values()) if (atMs < next) next = atMs;
    if (next === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.wake(), Math.min(Math.max(0, next - Date.now()), LIMITS.webhook.sweepMs));
  }
}
