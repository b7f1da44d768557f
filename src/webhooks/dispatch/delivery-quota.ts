// The quota of deliveries in a UTC day. A delivery counts when it is claimed for its first attempt, in the transaction of the claim.
// It counts once: not again when it is retried, or claimed again after its process died. Deliveries beyond the quota wait for the next
// day, or until the quota is raised (quota-release.ts). Deliveries of one record stay in order, because the later ones wait for the
// first.
// Contract: neighbours#usage-and-quotas, decisions#deliveries.
import type { App } from '../../app.ts';
import { inputRows, type Queries, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import type { Tenant } from '../../tenants/tenants.ts';
import { noticeUse } from '../../usage/near-quota.ts';
import { utcDay } from '../../usage/usage-writer.ts';
import { IS_PENDING, type PendingRow, type Recheck } from './pending.ts';

const DAY_MS = 86_400_000;
/** The `error` of a delivery that waits. */
export const WAITING = 'quota_exceeded';

export function isLimited(tenant: Tenant | undefined): boolean {
  return tenant?.quotas.deliveriesPerDay !== undefined;
}

/** Counts first attempts, and postpones deliveries beyond the quota of their tenant. `tenants` is by subscription. */
export async function withinQuotas(
  app: App,
  tx: Tx,
  rows: readonly PendingRow[],
  tenants: ReadonlyMap<string, Tenant>,
): Promise<{ admitted: readonly PendingRow[]; waiting: readonly Recheck[] }> {
  const limited = [...new Map([...tenants.values()].map((tenant) => [tenant.id, tenant])).values()]
    .filter(isLimited)
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  const refused = new Set<PendingRow>();
  for (const tenant of limited) {
    const firsts = rows.filter((row) => tenants.get(row.subscription_id)?.id === tenant.id && isUncountedFirst(row));
    if (firsts.length === 0) continue;
    const granted = await count(app, tx, tenant, firsts.length);
    for (const row of firsts.slice(granted)) refused.add(row);
  }
  if (refused.size === 0) return { admitted: rows, waiting: [] };
  return { admitted: rows.filter((row) => !refused.has(row)), waiting: await postpone(tx, [...refused]) };
}

/** Excludes a delivery that a dead process claimed and left without a result: it has already been counted. */
function isUncountedFirst(row: PendingRow): boolean {
  return row.attempt_count === row.attempts_before && !row.is_counted;
}

/** Counts as many of the `wanted` deliveries as the quota admits; resolves to their number. */
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
    ['uuid', 'uuid', 'uuid', 'text'],
    rows.map((row) => [row.subscription_id, row.tenant_id, row.id, row.due_at]),
  );
  await tx.rows(sql`
    with input (subscription_id, tenant_id, id, due_at) as (${input})
    update platform.webhook_deliveries as d
    set claim_id = null, next_at = now() + ${untilTomorrowMs}::int * interval '1 ms', error = ${WAITING}
    from input as i
    where d.subscription_id = i.subscription_id and d.tenant_id = i.tenant_id and d.id = i.id and ${IS_PENDING}
      and d.next_at + interval '0' = i.due_at::timestamptz`);
  const ids = [...new Set(rows.map((row) => row.subscription_id))];
  return ids.map((subscriptionId) => ({ subscriptionId, inMs: untilTomorrowMs }));
}

/** A condition: the tenant's current quota admits no further delivery today. */
export function isUsedUp(tenantId: string): Sql {
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
