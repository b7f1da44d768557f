// Metrics of what the dispatcher still has to send: the pending deliveries of active subscriptions and tenants, exactly
// counted, and the age of the oldest. A million pending deliveries take 0.3 to 1 s, in the background and without parallel
// workers of Postgres.
// Contract: neighbours#who-does-what.
import type { App } from '../../app.ts';
import { BackgroundRead } from '../../runtime/background-read.ts';
import { sql, type Tx } from '../../runtime/sql.ts';

interface Backlog {
  pending: number;
  /** 0 without pending deliveries. */
  oldest_s: number;
}

export function registerBacklogMetrics(app: App): void {
  const backlog = new BackgroundRead(
    () => app.db.slow.begin(readBacklog),
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

/** Without its event, the oldest delivery's own row is read. */
async function readBacklog(tx: Tx): Promise<Backlog> {
  await tx.rows(sql`select set_config('max_parallel_workers_per_gather', '0', true)`);
  const found = await tx.first<Backlog>(sql`
    with by_subscription as materialized (
      select subscription_id, count(*) as count, min(event_seq) as seq
      from platform.webhook_deliveries
      where status = 'pending'
      group by subscription_id
    ), active as (
      select sum(b.count) as pending, min(b.seq) as seq
      from by_subscription as b
      join platform.webhook_subscriptions as s on s.id = b.subscription_id and s.is_active
      join platform.tenants as t on t.id = s.tenant_id and t.status = 'active'
    )
    select coalesce(a.pending, 0)::float8 as pending,
      coalesce(extract(epoch from now() - coalesce(
        (select e.at from platform.events as e where e.seq = a.seq limit 1),
        (select min(d.event_at) from platform.webhook_deliveries as d where d.status = 'pending' and d.event_seq = a.seq)
      )), 0)::float8 as oldest_s
    from active as a`);
  return found ?? { pending: 0, oldest_s: 0 };
}
