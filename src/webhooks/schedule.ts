// Which subscriptions may have something due, and when: from commits in this process at once, from
// the broker's schedule for what any process put off, and from a sweep of the database, which is the
// truth and makes up for whatever the others have lost. To look at one in vain does no harm.
// Times are milliseconds. Contract: decisions#deliveries.
import type { App } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { sql } from '../runtime/sql.ts';

const SET = 'webhooks';
/** How often the broker is asked. */
const ASK_MS = 250;
const TENANTS_KNOWN = 10_000;
/** Times kept for one subscription. */
const TIMES_MAX = 32;
/** Stands for a change of any kind. */
const ANY = '*';

export class Schedule {
  /** When each is to be looked at, in ascending order: a look now serves nothing that is due later. */
  readonly #due = new Map<string, readonly number[]>();
  /** Tenants with a change that is yet to be looked at, and what it may be of. */
  readonly #touched = new Map<string, Set<string>>();
  /** Active subscriptions by tenant, and there by what they ask for: an entity's id and a type of event, or anything. */
  readonly #known = new Map<string, ReadonlyMap<string, readonly string[]>>();
  #forgets = 0;
  #sweepAt = 0;
  #askAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(
    private readonly app: App,
    private readonly wake: () => void,
  ) {
    app.onCommitted((tenantId, change) => {
      if (tenantId !== undefined)
        this.#touch(tenantId, change === undefined ? ANY : `${change.entityId} ${change.type}`);
    });
    app.invalidations.on('webhook', (tenantId) => this.#forget(tenantId));
  }

  /** Has a subscription looked at, at that time. */
  at(subscriptionId: string, atMs: number): void {
    this.#note(subscriptionId, atMs);
    this.#arm();
  }

  /** The same, for whichever process is there then. With the broker away this process and the sweep remain. */
  share(subscriptionId: string, atMs: number): void {
    this.at(subscriptionId, atMs);
    this.app.broker
      .schedule(SET, subscriptionId, atMs)
      .catch((error) => this.app.log.debug('a delivery could not be put on the shared schedule', { error }));
  }

  /** Takes at most `limit` subscriptions that are to be looked at now. */
  async take(limit: number): Promise<string[]> {
    if (Date.now() >= this.#sweepAt) await this.#sweep();
    if (this.#touched.size > 0) await this.#expand();
    // What the broker says comes when it comes: while it is away nothing waits for it.
    if (Date.now() >= this.#askAt) void this.#ask(limit);
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
    this.#arm();
    return taken;
  }

  /**
   * The active subscriptions known to ask for the tenant's events of this type, but for those that wait to be looked at.
   * None as long as they are not known.
   */
  asking(tenantId: string, entityId: string, type: string, nowMs: number): string[] {
    const known = this.#isClosed ? undefined : this.#known.get(tenantId);
    const isWaiting = (id: string): boolean => (this.#due.get(id)?.[0] ?? Number.POSITIVE_INFINITY) <= nowMs;
    return known?.get(`${entityId} ${type}`)?.filter((id) => !isWaiting(id)) ?? [];
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #note(subscriptionId: string, atMs: number): void {
    const known = this.#due.get(subscriptionId) ?? [];
    if (known.includes(atMs)) return;
    const times = [...known, atMs].sort((a, b) => a - b);
    this.#due.set(subscriptionId, times.slice(0, TIMES_MAX));
  }

  #touch(tenantId: string, change: string): void {
    if (this.#isClosed || this.#known.get(tenantId)?.has(change) === false) return;
    const changes = this.#touched.get(tenantId);
    if (changes === undefined) this.#touched.set(tenantId, new Set([change]));
    else changes.add(change);
    this.wake();
  }

  #forget(tenantId: string | null): void {
    this.#forgets++;
    if (tenantId === null) this.#known.clear();
    else this.#known.delete(tenantId);
    if (tenantId !== null) this.#touch(tenantId, ANY);
  }

  async #expand(): Promise<void> {
    const touched = [...this.#touched];
    this.#touched.clear();
    const unknown = touched.map(([tenant]) => tenant).filter((tenant) => !this.#known.has(tenant));
    if (unknown.length > 0) await this.#learn(unknown);
    const now = Date.now();
    for (const [tenant, changes] of touched) {
      const known = this.#known.get(tenant);
      for (const change of changes) for (const id of known?.get(change) ?? []) this.#note(id, now);
    }
  }

  async #learn(tenants: readonly string[]): Promise<void> {
    const forgets = this.#forgets;
    const rows = await this.app.db.rows<{ id: string; tenant_id: string; asks: string[] }>(sql`
      select id, tenant_id, array(select entity_id || ' ' || unnest(event_types)) as asks
      from platform.webhook_subscriptions
      where tenant_id = any(${[...tenants]}::uuid[]) and is_active`);
    // What has changed meanwhile may be missing.
    if (this.#forgets !== forgets) return this.#learn(tenants);
    if (this.#known.size > TENANTS_KNOWN) this.#known.clear();
    const found = Map.groupBy(rows, (row) => row.tenant_id);
    for (const tenant of tenants) {
      const byChange = new Map<string, string[]>();
      for (const { id, asks } of found.get(tenant) ?? []) {
        for (const change of [ANY, ...asks]) byChange.set(change, [...(byChange.get(change) ?? []), id]);
      }
      this.#known.set(tenant, byChange);
    }
  }

  async #ask(limit: number): Promise<void> {
    this.#askAt = Number.POSITIVE_INFINITY;
    try {
      const ids = await this.app.broker.takeDue(SET, limit);
      const now = Date.now();
      for (const id of ids) this.#note(id, now);
      if (ids.length > 0) this.wake();
    } catch (error) {
      this.app.log.debug('the shared schedule of deliveries could not be read', { error });
    }
    this.#askAt = Date.now() + ASK_MS;
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
    for (const { id, due_at } of rows) this.#note(id, Date.parse(due_at) + 1);
  }

  /** Wakes the worker when the next one is due. */
  #arm(): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    let next = Number.POSITIVE_INFINITY;
    for (const [atMs = next] of this.#due.values()) if (atMs < next) next = atMs;
    if (next === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.wake(), Math.min(Math.max(0, next - Date.now()), LIMITS.webhook.sweepMs));
  }
}
