// Schedules the claims of subscriptions. It has three sources: commits of this process, the broker's schedule of deliveries that any
// process has delayed, and a sweep of the database, which finds what the other two have lost. A claim for a subscription without due
// deliveries is harmless.
// Times are milliseconds since the epoch. Contract: decisions#deliveries.
import type { App } from '../../app.ts';
import { EVERY_ENTITY } from '../../events/entity-change.ts';
import type { CommitNotice } from '../../events/publication.ts';
import { LIMITS } from '../../limits.ts';
import { LEAST_ID } from '../../runtime/ids.ts';
import { sql } from '../../runtime/sql.ts';
import { DueSubscriptions } from './due-subscriptions.ts';

const SHARED_SET = 'webhooks';
/** The interval between two reads of the shared schedule. */
const POLL_MS = 250;
const TENANTS_CACHED = 10_000;
/** Subscriptions that a sweep reads at once. */
const SWEEP_PAGE = 1_000;
/** Matches every subscription of the tenant. */
const ANY_CHANGE = '*';

/** The entity's id and the event type. */
type ChangeKey = string;

/** A subscription with pending deliveries, and when the first one is due. */
interface PendingSubscription {
  id: string;
  tenant_id: string;
  due_at: string;
}

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
  readonly #due = new DueSubscriptions((id) => this.#tenants.get(id));
  /** Committed changes by tenant whose subscriptions are not scheduled yet. */
  readonly #changed = new Map<string, Set<ChangeKey>>();
  /** The tenants of subscriptions, as far as this process knows them. */
  readonly #tenants = new Map<string, string>();
  /** Active subscriptions by tenant and by the changes they match. Subscriptions with judged changes are listed under no change. */
  readonly #subscriptions = new Map<string, ReadonlyMap<ChangeKey, readonly string[]>>();
  #invalidations = 0;
  #sweepAt = 0;
  #pollAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer fires. */
  #wakesAt = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(
    private readonly app: App,
    private readonly wake: () => void,
    /** Whether a claim of the subscription could be made now. If not, this function schedules it for later. */
    private readonly mayClaim: (subscriptionId: string) => boolean = () => true,
  ) {
    app.invalidations.on('webhook', (tenantIds) => this.#invalidate(tenantIds));
  }

  /** Schedules the subscriptions that match the change. */
  onCommitted({ tenantId, change }: CommitNotice): void {
    if (change === null) return;
    this.#markChanged(tenantId, change === undefined ? ANY_CHANGE : `${change.entity.id} ${change.type}`);
  }

  add(subscriptionId: string, atMs: number): void {
    this.#due.add(subscriptionId, atMs);
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

  /** Takes at most `limit` subscriptions whose claim is due, from the tenants in turn. */
  async takeDue(limit: number): Promise<string[]> {
    // The first sweep finds deliveries that an earlier process has left.
    if (this.#sweepAt === 0) await this.#sweep();
    else if (Date.now() >= this.#sweepAt) void this.#sweepAside();
    if (this.#changed.size > 0) await this.#scheduleChanged();
    // Not awaited: claims must not wait for an unavailable broker.
    if (Date.now() >= this.#pollAt) void this.#pollShared(limit);
    const taken = this.#due.take(limit, Date.now());
    this.#setTimer();
    return taken;
  }

  /** The cached active subscriptions that match the change and have no claim due; none while the tenant is not cached. */
  idleFor(tenantId: string, entityId: string, type: string, nowMs: number): string[] {
    const known = this.#isClosed ? undefined : this.#subscriptions.get(tenantId);
    if (known === undefined) return [];
    return matching(known, `${entityId} ${type}`).filter((id) => !this.#due.isDue(id, nowMs));
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
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
      // Otherwise a hundred receivers that never respond would be scheduled and refused with each change of their tenant.
      const claimable = [...changes].flatMap((change) => matching(known, change)).filter(this.mayClaim);
      for (const id of claimable) this.#due.add(id, now);
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
      for (const id of ids) this.#due.add(id, now);
      if (ids.length > 0) this.wake();
    } catch (error) {
      this.app.log.debug('cannot read the shared schedule of deliveries', { error });
    }
    this.#pollAt = Date.now() + POLL_MS;
  }

  /** Sweeps without delaying claims: while an older snapshot is open, a sweep reads each delivery ended since, 0.3 s for a million. */
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

  /** Schedules every subscription with a pending delivery, page by page: there may be a hundred thousand. */
  async #sweep(): Promise<void> {
    let page: PendingSubscription[];
    let last = LEAST_ID;
    do {
      page = await this.#pendingAfter(last);
      for (const { id, tenant_id, due_at } of page) {
        this.#tenants.set(id, tenant_id);
        this.#due.add(id, Date.parse(due_at) + 1);
        last = id;
      }
    } while (page.length === SWEEP_PAGE);
    this.#sweepAt = Date.now() + LIMITS.webhook.sweepMs * (0.9 + Math.random() * 0.2);
  }

  /** Reads the index only, without the tenant: claims check the tenant as well. */
  #pendingAfter(subscriptionId: string): Promise<PendingSubscription[]> {
    return this.app.db.slow.rows<PendingSubscription>(sql`
      select s.id, s.tenant_id, d.due_at
      from platform.webhook_subscriptions as s
      cross join lateral (
        select min(d.next_at) as due_at from platform.webhook_deliveries as d
        where d.subscription_id = s.id and d.status = 'pending'
      ) as d
      where s.is_active and s.id > ${subscriptionId}::uuid and d.due_at is not null
      order by s.id
      limit ${SWEEP_PAGE}`);
  }

  /** Wakes the worker at the next scheduled time; a worker that is woken too early looks again. */
  #setTimer(): void {
    const next = this.#due.nextAt;
    if (this.#isClosed || next >= this.#wakesAt) return;
    clearTimeout(this.#timer);
    this.#wakesAt = next;
    const wake = (): void => {
      this.#wakesAt = Number.POSITIVE_INFINITY;
      this.wake();
    };
    this.#timer = setTimeout(wake, Math.min(Math.max(0, next - Date.now()), LIMITS.webhook.sweepMs));
  }
}
