// Gives up deliveries whose last retry could not be made for a day, because their receiver hangs and their turn never comes. They fail with
// that reason, like deliveries whose last retry has failed. Deliveries of inactive subscriptions and suspended tenants wait without limit;
// when the subscription or tenant becomes active again, a new day begins.
// Contract: decisions#health-of-subscriptions.
import type { App } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { sql } from '../../runtime/sql.ts';
import type { OverdueDelivery } from './results.ts';

const BATCH_ROWS = 500;

/** The overdue deliveries, at most a batch. */
export async function findOverdue(app: App): Promise<OverdueDelivery[]> {
  return app.db.slow.rows<OverdueDelivery>(sql`
    select d.subscription_id as "subscriptionId", d.tenant_id as "tenantId", d.id, d.claim_id as "claimId"
    from platform.webhook_subscriptions as s
    join platform.tenants as t on t.id = s.tenant_id and t.status = 'active'
    cross join lateral (
      select * from platform.webhook_deliveries as d
      where d.subscription_id = s.id and d.tenant_id = s.tenant_id and d.status = 'pending'
        and d.next_at < now() - ${LIMITS.webhook.overdueMs}::int * interval '1 ms'
        and d.attempt_count > d.attempts_before and d.attempt_count - d.attempts_before >= ${app.config.webhook.maxRetries}::int
      limit ${BATCH_ROWS}::int
    ) as d
    where s.is_active
      and greatest(d.next_at, s.updated_at, t.updated_at) < now() - ${LIMITS.webhook.overdueMs}::int * interval '1 ms'
    limit ${BATCH_ROWS}::int`);
}
