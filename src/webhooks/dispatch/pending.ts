// What is due of a subscription. Events of one record leave one at a time, in the order of the changes:
// what waits for an earlier one is put aside for a while, the longer the older it is, and roused when
// that one ends. To be used with the subscriptions' rows locked. Contract: decisions#deliveries.
import type { RecordEventType } from '../../events/event.ts';
import { inputRows, sql, type Tx } from '../../runtime/sql.ts';

/** A subscription, and how many of its deliveries may be on their way. */
export interface Asked {
  id: string;
  tenantId: string;
  window: number;
  /** How many of them may leave now. */
  most: number;
}

/** A subscription that is to be looked at again. */
export interface Recheck {
  subscriptionId: string;
  inMs: number;
}

export function inMs(ms: number, subscriptionIds: readonly string[]): Recheck[] {
  return subscriptionIds.map((subscriptionId) => ({ subscriptionId, inMs: ms }));
}

export interface PendingRow {
  id: string;
  subscription_id: string;
  event_id: string;
  type: RecordEventType;
  attempt_count: number;
  attempts_before: number;
  body: string | null;
  is_blocked: boolean;
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

/** A subscription without room, or without anything due, has one row, and no delivery in it. */
type FoundRow = (PendingRow | { id: null; subscription_id: string; room: number }) & { crowded_ms: number };

/**
 * How long a delivery that waits for another is left alone, at least and at most: as long as it has waited already. One
 * that was made while the one before it ended is roused by nobody, and must not wait for long.
 */
const POSTPONE_MIN_MS = 100;
const POSTPONE_MAX_MS = 5_000;
/** Deliveries looked at beyond those that a subscription has room for: some may wait for others. */
const LOOK_AHEAD = 16;
/**
 * Where all room is taken by what other processes have on their way, nobody says when that ends: it is looked for again
 * after as long as the first of it has been on its way, at least and at most.
 */
const FULL_RECHECK_MIN_MS = 250;
const FULL_RECHECK_MAX_MS = 5_000;

/**
 * For rows named by their ids. Written plainly, it would let the planner read an index of all that is pending or due, which
 * it takes to be far smaller than it is while there is a backlog.
 */
export const IS_PENDING = sql`d.status || '' = 'pending'`;

/**
 * Due deliveries as far as each subscription has room, with their events; those that wait come without. And where more
 * may be due. `leaseMs` is how long a claim holds.
 */
export async function findPending(
  tx: Tx,
  subscriptions: readonly Asked[],
  leaseMs: number,
): Promise<{ due: PendingRow[]; again: Recheck[] }> {
  const found = await tx.rows<FoundRow>(sql`
    with on_way as materialized (
      select c.tenant_id, c.subscription_id, count(*)::int as claimed,
        ${leaseMs}::int - (extract(epoch from min(c.next_at) - now()) * 1000)::int as age_ms
      from platform.webhook_deliveries as c
      where c.tenant_id = any(${subscriptions.map(({ tenantId }) => tenantId)}::uuid[])
        and c.claim_id is not null and c.next_at > now()
      group by c.tenant_id, c.subscription_id
    ), wanted as (
      select w.id,
        least(w.most, w.room - coalesce((select o.claimed from on_way as o where o.subscription_id = w.id), 0)) as room,
        coalesce((select sum(o.claimed) from on_way as o where o.tenant_id = w.tenant_id), 0)::int as tenant_claimed,
        (select o.age_ms from on_way as o where o.subscription_id = w.id) as age_ms
      from unnest(${subscriptions.map(({ id }) => id)}::uuid[], ${subscriptions.map(({ tenantId }) => tenantId)}::uuid[],
        ${subscriptions.map(({ window }) => window)}::int[], ${subscriptions.map(({ most }) => most)}::int[])
        as w (id, tenant_id, room, most)
    ), due as materialized (
      select d.*, b.is_blocked,
        row_number() over (partition by d.subscription_id, b.is_blocked order by d.next_at, d.event_seq) as place
      from wanted as w
      cross join lateral (
        select * from platform.webhook_deliveries as d
        where d.subscription_id = w.id and d.status = 'pending' and d.next_at <= now()
        order by d.next_at
        limit w.room + ${LOOK_AHEAD}::int
      ) as d
      cross join lateral (
        select exists (
          select from (
            select * from platform.webhook_deliveries as o
            where o.subscription_id = d.subscription_id and o.record_id = d.record_id and o.status = 'pending'
            order by o.event_seq
          ) as o
          where o.id <> d.id and (o.event_seq < d.event_seq or (o.claim_id is not null and o.next_at > now()))
        ) as is_blocked
      ) as b
      where w.room > 0
    )
    select w.id as subscription_id, w.room, w.tenant_claimed, d.id, d.event_id, d.type, d.attempt_count, d.attempts_before, d.body, d.is_blocked,
      d.next_at::text as due_at, d.record_id, d.event_at as at, e.version, e.data, e.created_at, e.updated_at,
      e.created_by, e.updated_by,
      least(${FULL_RECHECK_MAX_MS}::int, greatest(${FULL_RECHECK_MIN_MS}::int, w.age_ms)) as crowded_ms
    from wanted as w
    left join due as d on d.subscription_id = w.id and (d.is_blocked or d.place <= w.room)
    left join lateral (
      select * from platform.events as e
      where d.body is null and not d.is_blocked and e.seq = d.event_seq and e.at = d.event_at
      limit 1
    ) as e on true
    order by d.next_at, d.event_seq`);
  const due = found.filter((row): row is PendingRow & FoundRow => row.id !== null);
  const crowded = found.filter(({ room }) => room <= 0);
  const again = crowded.map((row) => ({ subscriptionId: row.subscription_id, inMs: row.crowded_ms }));
  return { due, again: [...again, ...inMs(0, likelyMore(due))] };
}

/** Subscriptions whose room is filled, or so many of whose deliveries wait that others behind them were not looked at. */
function likelyMore(due: readonly PendingRow[]): string[] {
  return [...Map.groupBy(due, (row) => row.subscription_id)].flatMap(([id, rows]) => {
    const room = rows[0]?.room ?? 0;
    const ready = rows.filter((row) => !row.is_blocked).length;
    return ready >= room || rows.length >= room + LOOK_AHEAD ? [id] : [];
  });
}

/** Puts aside what has not been roused meanwhile, and says when to look again at what is not roused after either. */
export async function postpone(tx: Tx, rows: readonly PendingRow[]): Promise<Recheck[]> {
  const input = inputRows(
    ['uuid', 'uuid', 'text'],
    rows.map((row) => [row.subscription_id, row.id, row.due_at]),
  );
  return tx.rows<Recheck>(sql`
    with input (subscription_id, id, due_at) as (${input}), aside as (
      update platform.webhook_deliveries as d
      set claim_id = null, next_at = now() + least(${POSTPONE_MAX_MS}::int * interval '1 ms',
        greatest(${POSTPONE_MIN_MS}::int * interval '1 ms', now() - d.created_at))
      from input as w
      where d.subscription_id = w.subscription_id and d.id = w.id and ${IS_PENDING} and d.next_at + interval '0' = w.due_at::timestamptz
      returning d.subscription_id, d.next_at
    )
    select subscription_id as "subscriptionId", ceil(extract(epoch from min(next_at) - now()) * 1000)::int as "inMs"
    from aside
    group by subscription_id`);
}
