// The quota of deliveries in a UTC day. A delivery counts when it is claimed for its first attempt, in the transaction of
// the claim; its retries do not count again. Deliveries beyond the quota wait for the next day, or until the quota is
// raised; those of one record stay in order, because later ones wait for the first.
// Contract: neighbours#usage-and-quotas, decisions#deliveries.
import type { App } from '../../app.ts';
import { inParts, PART_ROWS } from '../../runtime/parts.ts';
import { inputRows, type Queries, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { withoutSignal } from '../../runtime/work.ts';
import type { Tenant } from '../../tenants/tenants.ts';
import { noticeUse } from '../../usage/near-quota.ts';
import { utcDay } from '../../usage/usage-writer.ts';
import { IS_PENDING, type PendingRow, type Recheck } from './pending.ts';

const DAY_MS = 86_400_000;
/** The `error` of a delivery that waits. */
const WAITING = 'quota_exceeded';

/** Counts first attempts and postpones those beyond the quota of their tenant. `tenants` is by subscription. */
export async function withinQuotas(
  app: App,
  tx: Tx,
  rows: readonly PendingRow[],
  tenants: ReadonlyMap<string, Tenant>,
): Promise<{ admitted: readonly PendingRow[]; waiting: readonly Recheck[] }> {
  const limited = [...new Map([...tenants.values()].map((tenant) => [tenant.id, tenant])).values()]
    .filter(({ quotas }) => quotas.deliveriesPerDay !== undefined)
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  const refused = new Set<PendingRow>();
  for (const tenant of limited) {
    const firsts = rows.filter(
      (row) => tenants.get(row.subscription_id)?.id === tenant.id && row.attempt_count === row.attempts_before,
    );
    if (firsts.length === 0) continue;
    const granted = await count(app, tx, tenant, firsts.length);
    for (const row of firsts.slice(granted)) refused.add(row);
  }
  if (refused.size === 0) return { admitted: rows, waiting: [] };
  return { admitted: rows.filter((row) => !refused.has(row)), waiting: await postpone(tx, [...refused]) };
}

/** Counts as many of `wanted` deliveries as fit; resolves to their number. */
async function count(app: App, tx: Tx, { id, quotas }: Tenant, wanted: number): Promise<number> {
  const limit = quotas.deliveriesPerDay ?? Number.POSITIVE_INFINITY;
  const day = utcDay(Date.now());
  await tx.rows(sql`
    insert into platform.usage_days (tenant_id, day) values (${id}::uuid, ${day}::date) on conflict do nothing`);
  const row = await tx.first<{ used: number }>(sql`
    select claimed_deliveries as used from platform.usage_days
    where tenant_id = ${id}::uuid and day = ${day}::date
    for no key update`);
  const used = row?.used ?? 0;
  const granted = Math.max(0, Math.min(wanted, limit - used));
  if (granted > 0) {
    await tx.rows(sql`
      update platform.usage_days set claimed_deliveries = claimed_deliveries + ${granted}::bigint
      where tenant_id = ${id}::uuid and day = ${day}::date`);
  }
  noticeUse(app, id, 'deliveriesPerDay', limit, used + granted);
  return granted;
}

async function postpone(tx: Tx, rows: readonly PendingRow[]): Promise<Recheck[]> {
  const untilTomorrowMs = DAY_MS - (Date.now() % DAY_MS);
  const input = inputRows(
    ['uuid', 'uuid', 'text'],
    rows.map((row) => [row.subscription_id, row.id, row.due_at]),
  );
  await tx.rows(sql`
    with input (subscription_id, id, due_at) as (${input})
    update platform.webhook_deliveries as d
    set claim_id = null, next_at = now() + ${untilTomorrowMs}::int * interval '1 ms', error = ${WAITING}
    from input as i
    where d.subscription_id = i.subscription_id and d.id = i.id and ${IS_PENDING}
      and d.next_at + interval '0' = i.due_at::timestamptz`);
  const ids = [...new Set(rows.map((row) => row.subscription_id))];
  return ids.map((subscriptionId) => ({ subscriptionId, inMs: untilTomorrowMs }));
}

/**
 * Makes the tenant's deliveries that wait for the next day due, once a change of its quota has been committed. In parts, each of
 * which is sent while others still wait, until the day is used up again: the rest would only be postponed once more. Also when
 * the client has gone: nothing else would release the rest.
 */
export async function releaseWaiting(app: App, tenantId: string): Promise<void> {
  await withoutSignal(async () => {
    // The locks wait for claims that have read the old quota: none postpones anything by it from now on.
    const subscriptions = await app.db.slow.begin((tx) =>
      tx.rows<{ id: string }>(sql`
        select id from platform.webhook_subscriptions where tenant_id = ${tenantId}::uuid order by id for no key update`),
    );
    const onPart = (): Promise<void> => app.invalidations.publish('webhook', tenantId);
    for (const { id } of subscriptions)
      await inParts(app.db.slow, (after) => waitingAfter(tenantId, id, after), { onPart });
  });
}

/** Those that a claim has postponed are due at the same time, and are released in one part. */
function waitingAfter(tenantId: string, subscriptionId: string, after: string | null): Sql {
  return sql`
    with part as materialized (
      select d.id, d.next_at from platform.webhook_deliveries as d
      where not ${isUsedUp(tenantId)}
        and d.subscription_id = ${subscriptionId}::uuid and d.status = 'pending' and d.error = ${WAITING} and d.claim_id is null
        and d.next_at > coalesce(${after}::timestamptz, now()) and d.next_at < now() + ${2 * DAY_MS}::int * interval '1 ms'
      order by d.next_at
      fetch first (${PART_ROWS}::int) rows with ties
    ), released as (
      update platform.webhook_deliveries as d set next_at = now(), error = null
      from part as p
      where d.subscription_id = ${subscriptionId}::uuid and d.id = p.id and ${IS_PENDING} and d.error = ${WAITING}
        and d.claim_id is null
    )
    select count(*)::int as count, max(next_at)::text as last from part`;
}

/** A condition: the tenant's quota, as it is now, admits no further delivery today. */
function isUsedUp(tenantId: string): Sql {
  return sql`exists (
    select from platform.tenants as t
    left join platform.usage_days as u on u.tenant_id = t.id and u.day = ${utcDay(Date.now())}::date
    where t.id = ${tenantId}::uuid and coalesce(u.claimed_deliveries, 0) >= (t.quotas ->> 'deliveriesPerDay')::bigint)`;
}

/** Whether further deliveries of the tenant wait for the next day. */
export async function isDayUsedUp(queries: Queries, { id, quotas }: Pick<Tenant, 'id' | 'quotas'>): Promise<boolean> {
  if (quotas.deliveriesPerDay === undefined) return false;
  return (await queries.first(sql`select where ${isUsedUp(id)}`)) !== undefined;
}
