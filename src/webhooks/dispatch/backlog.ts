// Metrics of the dispatcher's backlog: the number of pending deliveries of active subscriptions and tenants, and the age of the
// oldest. Both are exact up to `countedMax` pending deliveries. Beyond, the number is Postgres's estimate for all subscriptions, and
// the oldest is the delivery that has been due for longest. So the cost of a read is bounded, however many deliveries there are.
// Contract: neighbours#who-does-what.
import type { App } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { BackgroundRead, estimatedEntries } from '../../runtime/background-read.ts';
import { NO_TABLE_SCANS, sql, type Tx } from '../../runtime/sql.ts';

interface Backlog {
  pending: number;
  /** 0 without pending deliveries. */
  oldest_s: number;
}

export function registerBacklogMetrics(app: App): void {
  const backlog = new BackgroundRead(
    () => app.db.slow.begin((tx) => readBacklog(tx)),
    (error) => app.log.debug('metrics: cannot count pending deliveries', { error }),
  );
  const gauge = (name: string, help: string, pick: (found: Backlog) => number): void =>
    app.metrics.uncertainGauge(name, help, async () => {
      const found = await backlog.latest();
      return found === null ? null : pick(found);
    });
  gauge('svc_webhook_deliveries_pending', 'Webhook deliveries not finished yet.', ({ pending }) => pending);
  gauge('svc_webhook_delivery_oldest_seconds', 'Age of the oldest pending delivery.', ({ oldest_s: age }) => age);
}

/** Scans of the indexes of pending deliveries, never of the table, which has all deliveries of 30 days. */
export async function readBacklog(tx: Tx, countedMax: number = LIMITS.metrics.countedMax): Promise<Backlog> {
  await tx.rows(sql`select ${NO_TABLE_SCANS}`);
  const found = await tx.first<Backlog & { counted: number }>(sql`
    with counted as materialized (
      select subscription_id, event_seq from platform.webhook_deliveries where status = 'pending' limit ${countedMax + 1}::int
    ), by_subscription as (
      select subscription_id, count(*) as count, min(event_seq) as seq from counted group by subscription_id
    ), active as (
      select sum(b.count) as pending, min(b.seq) as seq
      from by_subscription as b
      join platform.webhook_subscriptions as s on s.id = b.subscription_id and s.is_active
      join platform.tenants as t on t.id = s.tenant_id and t.status = 'active'
    )
    select (select count(*) from counted) as counted, coalesce(a.pending, 0)::float8 as pending,
      coalesce(extract(epoch from now() - coalesce(
        (select e.at from platform.events as e where e.seq = a.seq limit 1),
        (select min(d.event_at) from platform.webhook_deliveries as d where d.status = 'pending' and d.event_seq = a.seq)
      )), 0)::float8 as oldest_s
    from active as a`);
  if (found === undefined) return { pending: 0, oldest_s: 0 };
  return found.counted > countedMax ? estimateBacklog(tx, found.counted) : found;
}

/** Takes one index step for each subscription that has pending deliveries. */
async function estimateBacklog(tx: Tx, counted: number): Promise<Backlog> {
  const found = await tx.first<Backlog>(sql`
    with recursive subscription as (
      (select subscription_id as id from platform.webhook_deliveries
        where status = 'pending' order by subscription_id limit 1)
      union all
      select (
        select d.subscription_id from platform.webhook_deliveries as d
        where d.status = 'pending' and d.subscription_id > s.id order by d.subscription_id limit 1)
      from subscription as s
      where s.id is not null
    )
    select ${estimatedEntries('platform.webhook_deliveries_due_idx')} as pending,
      coalesce(extract(epoch from now() - min(due.event_at)), 0)::float8 as oldest_s
    from subscription as n
    join platform.webhook_subscriptions as s on s.id = n.id and s.is_active
    join platform.tenants as t on t.id = s.tenant_id and t.status = 'active'
    cross join lateral (
      select d.event_at from platform.webhook_deliveries as d
      where d.subscription_id = s.id and d.tenant_id = s.tenant_id and d.status = 'pending'
      order by d.next_at
      limit 1
    ) as due`);
  return { pending: Math.max(counted, found?.pending ?? 0), oldest_s: found?.oldest_s ?? 0 };
}
