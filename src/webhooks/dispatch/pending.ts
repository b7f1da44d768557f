// The query for pending deliveries. Deliveries of one record are sent one at a time, in the order of the changes. A
// delivery blocked by an earlier one is postponed by its own age, and released when the earlier one finishes.
// The caller must hold the locks of the subscriptions' rows. Contract: decisions#deliveries.
import type { FormerValues } from '../../events/before-image.ts';
import { eventSize, type RecordEventType, storedSize } from '../../events/event.ts';
import { LIMITS } from '../../limits.ts';
import { inputRows, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import type { Tenant } from '../../tenants/tenants.ts';

export interface ClaimRequest {
  subscriptionId: string;
  /** How many deliveries may be in flight, over all processes. */
  window: number;
  /** How many may be claimed now. */
  limit: number;
}

/**
 * A request for a locked subscription. `isNarrowed`: the body depends on the event, even when a body is stored. `isWithPrevious`: it also
 * depends on the record before the change.
 */
export type LockedRequest = ClaimRequest & { tenant: Tenant; isNarrowed: boolean; isWithPrevious: boolean };

/** A subscription whose due deliveries should be claimed again after `inMs`. */
export interface Recheck {
  subscriptionId: string;
  inMs: number;
}

export function recheckIn(inMs: number, subscriptionIds: readonly string[]): Recheck[] {
  return subscriptionIds.map((subscriptionId) => ({ subscriptionId, inMs }));
}

/** A due delivery with its event; `version` and `data` are null when the event is no longer kept. */
export interface PendingRow {
  id: string;
  /** Different after each change of the delivery. */
  row_version: string;
  subscription_id: string;
  tenant_id: string;
  event_id: string;
  type: RecordEventType;
  attempt_count: number;
  attempts_before: number;
  /** Whether the day's quota has counted its first attempt. */
  is_counted: boolean;
  body: string | null;
  /** An estimate of the bytes of the body: at least about this many. */
  size: number;
  /** The event was not read, because the other events already have as many bytes as one claim may read. */
  is_unread: boolean;
  is_blocked: boolean;
  /** As text, to the microsecond. */
  due_at: string;
  tenant_in_flight: number;
  /** How many deliveries this claim may take from the subscription. */
  room: number;
  record_id: string;
  trace: string | null;
  at: string;
  entity_id: string | null;
  is_test: boolean;
  version: number | null;
  data: Record<string, unknown> | null;
  old: FormerValues | null;
  event_seq: number;
  erased_at: string | null;
  erased_by: string | null;
  created_at: string;
  updated_at: string;
  created_by: string | null;
  updated_by: string | null;
}

/** A subscription without room or without due deliveries has one row, whose `id` is null. */
type FoundRow = (PendingRow | { id: null; subscription_id: string; room: number }) & { full_recheck_ms: number };

/**
 * A blocked delivery is postponed by its age, within these bounds. A delivery inserted while its predecessor finished
 * is not released by it, and must not wait long.
 */
const POSTPONE_MIN_MS = 100;
const POSTPONE_MAX_MS = 5_000;
/** Rows read beyond `room`, because some may be blocked. */
const LOOK_AHEAD = 16;
/**
 * Other processes that fill a window do not report when they finish: check again after the age of the oldest claim,
 * within these bounds.
 */
const FULL_RECHECK_MIN_MS = 250;
const FULL_RECHECK_MAX_MS = 5_000;

/**
 * For rows selected by id. The plain comparison would let the planner scan an index of all pending rows, whose size it
 * underestimates during a backlog.
 */
export const IS_PENDING = sql`d.status || '' = 'pending'`;

/**
 * The due deliveries that fit each subscription's window, and the blocked ones, without their events. `leaseMs` is the
 * lease of a claim.
 */
export async function findPending(
  tx: Tx,
  requests: readonly LockedRequest[],
  leaseMs: number,
): Promise<{ pending: PendingRow[]; rechecks: Recheck[] }> {
  const found = await tx.rows<FoundRow>(sql`
    ${dueDeliveries(requests, leaseMs)}, sized as (
      select r.id as subscription_id, r.tenant_id, r.room, r.tenant_in_flight, d.id, d.row_version, d.event_id, d.type, d.attempt_count,
        d.attempts_before, d.is_counted, d.body, d.is_blocked, d.next_at, d.event_seq, d.record_id, d.trace, d.event_at, e.entity_id,
        e.version, e.data, e.erased_at, e.erased_by, case when r.is_with_previous then e.old end as old, e.created_at, e.updated_at, e.created_by, e.updated_by,
        least(${FULL_RECHECK_MAX_MS}::int, greatest(${FULL_RECHECK_MIN_MS}::int, r.age_ms)) as full_recheck_ms,
        case when d.is_blocked then 0 else greatest(octet_length(d.body),
          ${eventSize(sql`e`)} + case when r.is_with_previous then ${storedSize(sql`e.old`)} else 0 end) end as size
      from request as r
      left join due as d on d.subscription_id = r.id and (d.is_blocked or d.rank <= r.room)
      left join lateral (
        select * from platform.events as e
        where (d.body is null or r.is_narrowed) and not d.is_blocked and e.seq = d.event_seq and e.at = d.event_at
          and (e.erased_at is null or d.type = 'record.deleted')
        limit 1
      ) as e on true
    ), summed as (
      select s.*, sum(s.size) over (partition by s.tenant_id order by s.next_at, s.event_seq, s.id) - s.size as of_tenant
      from sized as s
    )
    -- Of the tenants in turn, by bytes. Values that are not read stay where they are stored.
    select s.subscription_id, s.tenant_id, s.room, s.tenant_in_flight, s.id, s.row_version, s.event_id, s.type, s.attempt_count, s.attempts_before, s.is_counted,
      s.is_blocked, s.next_at::text as due_at, s.record_id, s.trace, s.event_at as at, s.entity_id, s.event_seq = 0 as is_test, s.event_seq,
      s.version, s.erased_at, s.erased_by, s.created_at,
      s.updated_at, s.created_by, s.updated_by, s.full_recheck_ms, s.size, u.is_unread,
      case when not u.is_unread then s.body end as body, case when not u.is_unread then s.data end as data,
      case when not u.is_unread then s.old end as old
    from (
      select s.*, sum(s.size) over (order by s.of_tenant, s.next_at, s.event_seq, s.id) - s.size as before
      from summed as s
    ) as s
    cross join lateral (select s.size > 0 and s.before >= ${LIMITS.webhook.bytesPerClaim}::int as is_unread) as u
    order by s.next_at, s.event_seq`);
  const pending = found.filter((row): row is PendingRow & FoundRow => row.id !== null);
  const full = found.filter(({ room }) => room <= 0);
  const fullRechecks = full.map((row) => ({ subscriptionId: row.subscription_id, inMs: row.full_recheck_ms }));
  return { pending, rechecks: [...fullRechecks, ...recheckIn(0, withMorePending(pending))] };
}

/** The CTEs `request`, with the room of each subscription, and `due`, ranked within their subscriptions. */
function dueDeliveries(requests: readonly LockedRequest[], leaseMs: number): Sql {
  const tenantIds = requests.map(({ tenant }) => tenant.id);
  return sql`
    with in_flight as materialized (
      select c.tenant_id, c.subscription_id, count(*)::int as claimed,
        ${leaseMs}::int - (extract(epoch from min(c.next_at) - now()) * 1000)::int as age_ms
      from platform.webhook_deliveries as c
      where c.tenant_id = any(${tenantIds}::uuid[]) and c.claim_id is not null and c.next_at > now()
      group by c.tenant_id, c.subscription_id
    ), request as (
      select r.id, r.tenant_id,
        least(r.max_claims, r.max_in_flight - coalesce((select f.claimed from in_flight as f where f.subscription_id = r.id), 0)) as room,
        coalesce((select sum(f.claimed) from in_flight as f where f.tenant_id = r.tenant_id), 0)::int as tenant_in_flight,
        (select f.age_ms from in_flight as f where f.subscription_id = r.id) as age_ms, r.is_narrowed,
        r.is_with_previous
      from unnest(${requests.map(({ subscriptionId }) => subscriptionId)}::uuid[], ${tenantIds}::uuid[],
        ${requests.map(({ window }) => window)}::int[], ${requests.map(({ limit }) => limit)}::int[],
        ${requests.map(({ isNarrowed }) => isNarrowed)}::boolean[], ${requests.map((request) => request.isWithPrevious)}::boolean[])
        as r (id, tenant_id, max_in_flight, max_claims, is_narrowed, is_with_previous)
    ), due as materialized (
      select d.*, b.is_blocked,
        row_number() over (partition by d.subscription_id, b.is_blocked order by d.next_at, d.event_seq) as rank
      from request as r
      cross join lateral (
        select d.*, d.xmin::text as row_version from platform.webhook_deliveries as d
        where d.subscription_id = r.id and d.tenant_id = r.tenant_id and d.status = 'pending' and d.next_at <= now()
        order by d.next_at
        limit r.room + ${LOOK_AHEAD}::int
      ) as d
      cross join lateral (
        select exists (
          select from (
            select * from platform.webhook_deliveries as o
            where o.subscription_id = d.subscription_id and o.tenant_id = d.tenant_id and o.record_id = d.record_id
              and o.status = 'pending'
            order by o.event_seq
          ) as o
          where o.id <> d.id and (o.event_seq < d.event_seq or (o.claim_id is not null and o.next_at > now()))
        ) as is_blocked
      ) as b
      where r.room > 0
    )`;
}

/** Subscriptions that may have further due deliveries: the room is filled, or the look-ahead is. */
function withMorePending(pending: readonly PendingRow[]): string[] {
  return [...Map.groupBy(pending, (row) => row.subscription_id)].flatMap(([id, rows]) => {
    const room = rows[0]?.room ?? 0;
    const ready = rows.filter((row) => !row.is_blocked).length;
    return ready >= room || rows.length >= room + LOOK_AHEAD ? [id] : [];
  });
}

/** Postpones rows that were not released meanwhile; the rechecks cover rows that are never released. */
export async function postponeBlocked(tx: Tx, rows: readonly PendingRow[]): Promise<Recheck[]> {
  const input = inputRows(
    ['uuid', 'uuid', 'uuid', 'text'],
    rows.map((row) => [row.subscription_id, row.tenant_id, row.id, row.due_at]),
  );
  return tx.rows<Recheck>(sql`
    with input (subscription_id, tenant_id, id, due_at) as (${input}), postponed as (
      update platform.webhook_deliveries as d
      set claim_id = null, next_at = now() + least(${POSTPONE_MAX_MS}::int * interval '1 ms',
        greatest(${POSTPONE_MIN_MS}::int * interval '1 ms', now() - d.created_at))
      from input as i
      where d.subscription_id = i.subscription_id and d.tenant_id = i.tenant_id and d.id = i.id and ${IS_PENDING}
        and d.next_at + interval '0' = i.due_at::timestamptz
      returning d.subscription_id, d.next_at
    )
    select subscription_id as "subscriptionId", ceil(extract(epoch from min(next_at) - now()) * 1000)::int as "inMs"
    from postponed
    group by subscription_id`);
}
