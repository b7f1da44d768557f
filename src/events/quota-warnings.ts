// Sends `quota.warning` on a tenant's stream when most of a quota is used: once a day for each quota, in all processes
// together. The event and the note that it was sent are one transaction.
// Contract: neighbours#usage-and-quotas.
import type { App } from '../app.ts';
import { sql } from '../runtime/sql.ts';
import { onNearQuota } from '../usage/near-quota.ts';
import { beginCounted } from '../usage/tally.ts';
import { appendEvent } from './outbox.ts';
import { notifyCommitted } from './publication.ts';

export function sendQuotaWarnings(app: App): void {
  onNearQuota(app, async (tenantId, day, use) => {
    const isSent = await beginCounted(app, async (tx) => {
      const first = await tx.first(sql`
        insert into platform.quota_warnings (tenant_id, day, quota)
        select id, ${day}::date, ${use.quota} from platform.tenants where id = ${tenantId}::uuid
        on conflict do nothing
        returning quota`);
      if (first === undefined) return false;
      const origin = { actor: null, triggeredBy: 'system', depth: 0, rootEventId: null, chainRuns: 0 } as const;
      await appendEvent(tx, 'quota.warning', { tenantId, ...origin }, { ...use });
      return true;
    });
    if (isSent) notifyCommitted(app, { tenantId, change: null });
  });
}
