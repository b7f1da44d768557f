// Which subscriptions may have something due, and when: from commits in this process at once, from
// the broker's schedule for what any process put off, and from a sweep of the database, which is the
// truth and makes up for whatever the others have lost. To look at one in vain does no harm.
// Times are milliseconds. Contract: decisions#deliveries.
import type { App } from '../../app.ts';
import type { CommitNotice } from '../../events/publication.ts';
import { LIMITS } from '../../limits.ts';
import { sql } from '../../runtime/sql.ts';

const SET = 'webhooks';
/** How often the broker is asked. */
const POLL_MS = 250;
const TENANTS_KNOWN = 10_000;
/** Times kept for one subscription. */
const TIMES_MAX = 32;
/** Stands for a change of any kind. */
const ANY = '*';

export class Schedule {
  /** When each is to be looked at, in ascending order: a look now serves nothing that is due later. */
  readonly #due = new Map<string, readonly number[]>();
  /** Tenants with a change that is yet to be looked at, and what it may be of. */
  readonly #changed = new Map<string, Set<string>>();
  /** Active subscriptions by tenant, and there by what they ask for: an entity's id and a type of event, or anything. */
  readonly #subscriptions = new Map<string, ReadonlyMap<string, readonly string[]>>();
  #invalidations = 0;
  #sweepAt = 0;
  #pollAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(
    private readonly app: App,
    private readonly wake: () => void,
  ) {
    app.invalidations.on('webhook', (tenantId) => this.#invalidate(tenantId));
  }

  /** Schedules the subscriptions that ask for the change. */
  onCommitted({ tenantId, change }: CommitNotice): void {
    if (change !== null) this.#markChanged(tenantId, change === undefined ? ANY : `${change.entity.id} ${change.type}`);
  }

  /** Has a subscription looked at, at that time. */
  add(subscriptionId: string, atMs: number): void {
    this.#insert(subscriptionId, atMs);
    this.#setTimer();
  }

  /** The same, for whichever process is there then. With the broker away this process and the sweep remain. */
  addShared(subscriptionId: string, atMs: number): void {
    this.add(subscriptionId, atMs);
    this.app.broker
      .schedule(SET, subscriptionId, atMs)
      .catch((error) => this.app.log.debug('a delivery could not be put on the shared schedule', { error }));
  }

  /** Takes at most `limit` subscriptions that are to be looked at now. */
  async takeDue(limit: number): Promise<string[]> {
    if (Date.now() >= this.#sweepAt) await this.#sweep();
    if (this.#changed.size > 0) await this.#scheduleChanged();
    // What the broker says comes when it comes: while it is away nothing waits for it.
    if (Date.now() >= this.#pollAt) void this.#pollShared(limit);
    const now = Date.now();
    const taken: string[] = [];
    for (const [id, times] of this.#due) {
      if ((times[0] as number) > now) continue;
      taken.push(id);
      const later = times.filter((atMs) => atMs > now);
      // Behind those that wait already.
      this.#due.delete(id);
      if (later.length > 0) this.#due.set(id, later);
      if (taken.length === limit) break;
    }
    this.#setTimer();
    return taken;
  }

  /**
   * The active subscriptions known to ask for the tenant's events of this type, but for those that wait to be looked at.
   * None as long as they are not known.
   */
  idleFor(tenantId: string, entityId: string, type: string, nowMs: number): string[] {
    const known = this.#isClosed ? undefined : this.#subscriptions.get(tenantId);
    const isWaiting = (id: string): boolean => (this.#due.get(id)?.[0] ?? Number.POSITIVE_INFINITY) <= nowMs;
    return known?.get(`${entityId} ${type}`)?.filter((id) => !isWaiting(id)) ?? [];
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #insert(subscriptionId: string, atMs: number): void {
    const known = this.#due.get(subscriptionId) ?? [];
    if (known.includes(atMs)) return;
    const times = [...known, atMs].sort((a, b) => a - b);
    this.#due.set(subscriptionId, times.slice(0, TIMES_MAX));
  }

  #markChanged(tenantId: string, change: string): void {
    if (this.#isClosed || this.#subscriptions.get(tenantId)?.has(change) === false) return;
    const changes = this.#changed.get(tenantId);
    if (changes === undefined) this.#changed.set(tenantId, new Set([change]));
    else changes.add(change);
    this.wake();
  }

  #invalidate(tenantId: string | null): void {
    this.#invalidations++;
    if (tenantId === null) this.#subscriptions.clear();
    else this.#subscriptions.delete(tenantId);
    if (tenantId !== null) this.#markChanged(tenantId, ANY);
  }

  async #scheduleChanged(): Promise<void> {
    const touched = [...this.#changed];
    this.#changed.clear();
    const unknown = touched.map(([tenant]) => tenant).filter((tenant) => !this.#subscriptions.has(tenant));
    if (unknown.length > 0) await this.#loadSubscriptions(unknown);
    const now = Date.now();
    for (const [tenant, changes] of touched) {
      const known = this.#subscriptions.get(tenant);
      for (const change of changes) for (const id of known?.get(change) ?? []) this.#insert(id, now);
    }
  }

  async #loadSubscriptions(tenants: readonly string[]): Promise<void> {
    const forgets = this.#invalidations;
    const rows = await this.app.db.rows<{ id: string; tenant_id: string; asks: string[] }>(sql`
      select id, tenant_id, array(select entity_id || ' ' || unnest(event_types)) as asks
      from platform.webhook_subscriptions
      where tenant_id = any(${[...tenants]}::uuid[]) and is_active`);
    // What has changed meanwhile may be missing.
    if (this.#invalidations !== forgets) return this.#loadSubscriptions(tenants);
    if (this.#subscriptions.size > TENANTS_KNOWN) this.#subscriptions.clear();
    const found = Map.groupBy(rows, (row) => row.tenant_id);
    for (const tenant of tenants) {
      const byChange = new Map<string, string[]>();
      for (const { id, asks } of found.get(tenant) ?? []) {
        for (const change of [ANY, ...asks]) byChange.set(change, [...(byChange.get(change) ?? []), id]);
      }
      this.#subscriptions.set(tenant, byChange);
    }
  }

  async #pollShared(limit: number): Promise<void> {
    this.#pollAt = Number.POSITIVE_INFINITY;
    try {
      const ids = await this.app.broker.takeDue(SET, limit);
      const now = Date.now();
      for (const id of ids) this.#insert(id, now);
      if (ids.length > 0) this.wake();
    } catch (error) {
      this.app.log.debug('the shared schedule of deliveries could not be read', { error });
    }
    this.#pollAt = Date.now() + POLL_MS;
  }

  /** Everything that is pending, with the time it is due. */
  async #sweep(): Promise<void> {
    const rows = await this.app.db.rows<{ id: string; due_at: string }>(sql`
      select s.id, d.due_at
      from platform.webhook_subscriptions as s
      cross join lateral (
        select min(d.next_at) as due_at from platform.webhook_deliveries as d
        where d.subscription_id = s.id and d.status = 'pending'
      ) as d
      where s.is_active and d.due_at is not null`);
    this.#sweepAt = Date.now() + LIMITS.webhook.sweepMs * (0.9 + Math.random() * 0.2);
    for (const { id, due_at } of rows) this.#insert(id, Date.parse(due_at) + 1);
  }

  /** Wakes the worker when the next one is due. */
  #setTimer(): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    let next = Number.POSITIVE_INFINITY;
    for (const [atMs = next] of this.#due.values()) if (atMs < next) next = atMs;
    if (next === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.wake(), Math.min(Math.max(0, next - Date.now()), LIMITS.webhook.sweepMs));
  }
}
