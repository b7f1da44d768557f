// Taking deliveries to send: in Postgres, under a lease that outlasts the attempt, so that several
// processes share the work and a dead one's share comes free by itself. Claims of one subscription
// take turns by its row's lock. Events of one record leave one at a time, in the order of the changes;
// what waits for an earlier one is put aside for a while, the longer the older it is, and roused when
// that one ends. Contract: section 9 of the decisions.
import type { App } from '../app.ts';
import { type Catalog, catalogWithin, loadCatalog } from '../entities/catalog.ts';
import type { RecordEventType } from '../events/event.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { LAZY_COMMIT, sql, type Tx } from '../runtime/sql.ts';
import { type Tenant, type TenantRow, toTenant } from '../tenants/tenants.ts';
import { payloadOf } from './payload.ts';

/** A subscription to look at, and how many more of its deliveries may be on their way. */
export interface Wanted {
  subscriptionId: string;
  window: number;
}

/** A delivery that this process is to send. */
export interface Claimed {
  id: string;
  claimId: string;
  subscriptionId: string;
  tenantId: string;
  eventId: string;
  type: RecordEventType;
  attempts: number;
  /** Attempts since it was last sent anew by hand: what counts against the retries. */
  attemptsNow: number;
  /** Null when its event or its entity is no longer there. */
  body: string | null;
  url: string;
  secret: string | null;
}

export interface Claim {
  claimed: Claimed[];
  /**
   * Subscriptions with more that is due, held back by the tenant's limit or the process's, and those at which another
   * process is.
   */
  heldBack: string[];
  /** Subscriptions with room, so many of whose deliveries wait that others behind them were not looked at. */
  unseen: string[];
  /**
   * When those that wait for an earlier event of their record are to be looked at again, if they are not roused before.
   */
  waitingMs: number | null;
}

/**
 * How long a delivery that waits for another is left alone, at least and at most: as long as it has waited already. One
 * that was made while the one before it ended is roused by nobody, and must not wait for long.
 */
const ASIDE_MIN_MS = 100;
const ASIDE_MAX_MS = 5_000;
/** Deliveries looked at beyond those that a subscription has room for: some may wait for others. */
const SPARE = 16;

/**
 * For rows named by their ids. Written plainly, it would let the planner read an index of all that is pending or due, which
 * it takes to be far smaller than it is while there is a backlog.
 */
export const IS_PENDING = sql`d.status || '' = 'pending'`;

interface SubscriptionRow extends TenantRow {
  subscription_id: string;
  entity_id: string;
  url: string;
  secret: string | null;
}

interface Subscribed {
  id: string;
  entityId: string;
  url: string;
  secret: string | null;
  tenant: Tenant;
  window: number;
}

interface DueRow {
  id: string;
  subscription_id: string;
  event_id: string;
  type: RecordEventType;
  attempt_count: number;
  attempts_before: number;
  body: string | null;
  is_waiting: boolean;
  /** As text, to the microsecond. */
  due_at: string;
  tenant_claimed: number;
  /** How many more of the subscription may be on their way. */
  room: number;
  record_id: string;
  at: string;
  version: number | null;
  data: Record<string, unknown> | null;
  created_at: string;
  updated_at: string;
  created_by: string | null;
  updated_by: string | null;
}

/** Claims at most `capacity` deliveries that are due. Inactive subscriptions and suspended tenants have none. */
export async function claimDue(app: App, wanted: readonly Wanted[], capacity: number): Promise<Claim> {
  return app.db.begin(async (tx) => {
    const subscriptions = await lockSubscriptions(tx, wanted);
    const busy = await findBusy(tx, wanted, subscriptions);
    if (subscriptions.size === 0) return { claimed: [], heldBack: busy, unseen: [], waitingMs: null };
    const due = await findDue(tx, [...subscriptions.values()]);
    const waiting = due.filter((row) => row.is_waiting);
    const waitingMs = waiting.length > 0 ? await putAside(tx, waiting) : null;
    const ready = due.filter((row) => !row.is_waiting);
    const taken = withinLimits(ready, subscriptions, capacity);
    const left = ready.filter((row) => !taken.includes(row));
    const claimed = await take(app, tx, taken, subscriptions);
    const heldBack = [...busy, ...left.map((row) => row.subscription_id)];
    return { claimed, heldBack, unseen: behindWaiting(due), waitingMs };
  });
}

/**
 * Without those at which another process is at the moment. A claim that a crash of the server undoes is of deliveries on
 * their way, and the outcome of one that has arrived commits after its claim.
 */
async function lockSubscriptions(tx: Tx, wanted: readonly Wanted[]): Promise<Map<string, Subscribed>> {
  const windows = new Map(wanted.map(({ subscriptionId, window }) => [subscriptionId, window]));
  const rows = await tx.rows<SubscriptionRow>(sql`
    select s.id as subscription_id, s.entity_id, s.url, s.secret, t.id, t.slug, t.name, t.status, t.settings,
      t.created_at, t.updated_at, ${LAZY_COMMIT} as setting
    from platform.webhook_subscriptions as s
    join platform.tenants as t on t.id = s.tenant_id
    where s.id = any(${[...windows.keys()]}::uuid[]) and s.is_active and t.status = 'active'
    for no key update of s skip locked`);
  return new Map(
    rows.map((row) => {
      const { subscription_id: id, entity_id: entityId, url, secret } = row;
      return [id, { id, entityId, url, secret, tenant: toTenant(row), window: windows.get(id) ?? 0 }];
    }),
  );
}

/** Those at which another process is: it may have looked before the newest of their deliveries was there. */
async function findBusy(tx: Tx, wanted: readonly Wanted[], locked: ReadonlyMap<string, Subscribed>): Promise<string[]> {
  const missing = wanted.map(({ subscriptionId }) => subscriptionId).filter((id) => !locked.has(id));
  if (missing.length === 0) return [];
  const rows = await tx.rows<{ id: string }>(sql`
    select s.id from platform.webhook_subscriptions as s
    join platform.tenants as t on t.id = s.tenant_id
    where s.id = any(${missing}::uuid[]) and s.is_active and t.status = 'active'`);
  return rows.map(({ id }) => id);
}

/** Due deliveries as far as each subscription has room, with their events; those that wait come without. */
function findDue(tx: Tx, subscriptions: readonly Subscribed[]): Promise<DueRow[]> {
  return tx.rows<DueRow>(sql`
    with on_way as materialized (
      select c.tenant_id, c.subscription_id, count(*)::int as claimed
      from platform.webhook_deliveries as c
      where c.tenant_id = any(${subscriptions.map(({ tenant }) => tenant.id)}::uuid[])
        and c.claim_id is not null and c.next_at > now()
      group by c.tenant_id, c.subscription_id
    ), wanted as (
      select w.id,
        w.room - coalesce((select o.claimed from on_way as o where o.subscription_id = w.id), 0) as room,
        coalesce((select sum(o.claimed) from on_way as o where o.tenant_id = w.tenant_id), 0)::int as tenant_claimed
      from unnest(${subscriptions.map(({ id }) => id)}::uuid[], ${subscriptions.map(({ tenant }) => tenant.id)}::uuid[],
        ${subscriptions.map(({ window }) => window)}::int[]) as w (id, tenant_id, room)
    ), due as materialized (
      select w.room, w.tenant_claimed, d.*, b.is_waiting,
        row_number() over (partition by d.subscription_id, b.is_waiting order by d.next_at, d.event_seq) as place
      from wanted as w
      cross join lateral (
        select * from platform.webhook_deliveries as d
        where d.subscription_id = w.id and d.status = 'pending' and d.next_at <= now()
        order by d.next_at
        limit w.room + ${SPARE}::int
      ) as d
      cross join lateral (
        select exists (
          select from platform.webhook_deliveries as o
          where o.subscription_id = d.subscription_id and o.record_id = d.record_id and o.status = 'pending'
            and o.id <> d.id and (o.event_seq < d.event_seq or (o.claim_id is not null and o.next_at > now()))
        ) as is_waiting
      ) as b
      where w.room > 0
    )
    select d.id, d.subscription_id, d.event_id, d.type, d.attempt_count, d.attempts_before, d.body, d.is_waiting,
      d.next_at::text as due_at, d.tenant_claimed, d.room, d.record_id, d.event_at as at, e.version, e.data, e.created_at,
      e.updated_at, e.created_by, e.updated_by
    from due as d
    left join lateral (
      select * from platform.events as e
      where d.body is null and not d.is_waiting and e.seq = d.event_seq and e.at = d.event_at
      limit 1
    ) as e on true
    where d.is_waiting or d.place <= d.room
    order by d.next_at, d.event_seq`);
}

function behindWaiting(due: readonly DueRow[]): string[] {
  return [...Map.groupBy(due, (row) => row.subscription_id)].flatMap(([id, rows]) => {
    const room = rows[0]?.room ?? 0;
    const ready = rows.filter((row) => !row.is_waiting).length;
    return ready < room && rows.length >= room + SPARE ? [id] : [];
  });
}

/** The tenant's limit over all its subscriptions, and what this process can carry. */
function withinLimits(ready: readonly DueRow[], subscriptions: Map<string, Subscribed>, capacity: number): DueRow[] {
  const counts = new Map<string, number>();
  return ready.slice(0, capacity).filter((row) => {
    const tenantId = subscriptions.get(row.subscription_id)?.tenant.id as string;
    const count = counts.get(tenantId) ?? row.tenant_claimed;
    counts.set(tenantId, count + 1);
    return count < LIMITS.webhook.perTenant;
  });
}

async function take(
  app: App,
  tx: Tx,
  rows: readonly DueRow[],
  subscriptions: Map<string, Subscribed>,
): Promise<Claimed[]> {
  if (rows.length === 0) return [];
  const claimId = newId();
  const claimed: Claimed[] = [];
  for (const row of rows) {
    const subscribed = subscriptions.get(row.subscription_id) as Subscribed;
    claimed.push(toClaimed(row, claimId, subscribed, row.body ?? (await freeze(app, tx, row, subscribed))));
  }
  const leaseMs = app.config.webhook.timeoutMs + LIMITS.webhook.leaseSlackMs;
  const taken = await tx.rows<{ id: string }>(sql`
    update platform.webhook_deliveries as d
    set claim_id = ${claimId}::uuid,
      next_at = now() + ${leaseMs}::int * interval '1 ms',
      body = coalesce(d.body, i.body)
    from unnest(${claimed.map(({ id }) => id)}::uuid[], ${claimed.map(({ body }) => body)}::text[]) as i (id, body)
    where d.id = i.id and ${IS_PENDING} and d.next_at + interval '0' <= now()
    returning d.id`);
  const ids = new Set(taken.map(({ id }) => id));
  return claimed.filter(({ id }) => ids.has(id));
}

function toClaimed(row: DueRow, claimId: string, { tenant, url, secret }: Subscribed, body: string | null): Claimed {
  return {
    id: row.id,
    claimId,
    subscriptionId: row.subscription_id,
    tenantId: tenant.id,
    eventId: row.event_id,
    type: row.type,
    attempts: row.attempt_count,
    attemptsNow: row.attempt_count - row.attempts_before,
    body,
    url,
    secret,
  };
}

/** The body, made with the definition of this moment; null when the event or its entity is gone. */
async function freeze(app: App, tx: Tx, row: DueRow, { tenant, entityId }: Subscribed): Promise<string | null> {
  const { record_id: id, version, data, created_at, updated_at, created_by, updated_by } = row;
  if (data === null || version === null) return null;
  const known: Catalog = await catalogWithin(app, tx, tenant);
  const entity = known.byId.get(entityId) ?? (await loadCatalog(tx, tenant)).byId.get(entityId);
  if (entity === undefined) return null;
  const event = { id, version, data, created_at, updated_at, created_by, updated_by };
  return payloadOf({ eventId: row.event_id, type: row.type, tenantId: tenant.id, at: row.at, row: event }, entity);
}

/** Puts aside what has not been roused meanwhile; resolves to how long the first of them is left alone, in ms. */
async function putAside(tx: Tx, rows: readonly DueRow[]): Promise<number | null> {
  const aside = await tx.first<{ ms: number | null }>(sql`
    with aside as (
      update platform.webhook_deliveries as d
      set claim_id = null, next_at = now() + least(${ASIDE_MAX_MS}::int * interval '1 ms',
        greatest(${ASIDE_MIN_MS}::int * interval '1 ms', now() - d.created_at))
      from unnest(${rows.map(({ id }) => id)}::uuid[], ${rows.map(({ due_at }) => due_at)}::text[]) as w (id, due_at)
      where d.id = w.id and ${IS_PENDING} and d.next_at + interval '0' = w.due_at::timestamptz
      returning d.next_at
    )
    select ceil(extract(epoch from min(next_at) - now()) * 1000)::int as ms from aside`);
  return aside?.ms ?? null;
}
