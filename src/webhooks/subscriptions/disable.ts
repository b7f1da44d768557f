// Makes a subscription inactive when its receiver is gone or has failed for days. This happens once for all processes, with an event on the
// stream and a mail to the tenant's admins. The deliveries wait. A person activates the subscription again.
// Contract: decisions#health-of-subscriptions.
import type { App } from '../../app.ts';
import { appendEvent } from '../../events/outbox.ts';
import { notifyCommitted } from '../../events/publication.ts';
import { LIMITS } from '../../limits.ts';
import { onOneLine } from '../../runtime/mail.ts';
import { identifier, sql, type Tx } from '../../runtime/sql.ts';
import { forTenant } from '../../runtime/work.ts';
import { type Tenant, tenantById } from '../../tenants/tenants.ts';
import { beginCounted } from '../../usage/tally.ts';
import { publishChange, type SubscriptionRow, subscriptionChange } from './write-subscription.ts';

/**
 * False when the subscription is inactive already, is gone, or no longer has failed for this many milliseconds: results from before
 * somebody activated it again do not disable it.
 */
export async function disableSubscription(app: App, id: string, reason: string, failedForMs = 0): Promise<boolean> {
  const owner = await app.db.first<{ tenant_id: string }>(sql`
    select tenant_id from platform.webhook_subscriptions where id = ${id}::uuid and is_active`);
  const tenant = owner === undefined ? null : await tenantById(app, owner.tenant_id);
  if (tenant === null) return false;
  const row = await beginCounted(app, (tx) => disable(tx, tenant, id, reason, failedForMs));
  if (row === undefined) return false;
  await publishChange(app, tenant);
  notifyCommitted(app, { tenantId: tenant.id, change: null });
  app.log.warn('a webhook subscription was disabled', { tenant: tenant.slug, subscription: id, reason });
  await mailAdmins(app, tenant, row, reason);
  return true;
}

async function disable(
  tx: Tx,
  tenant: Tenant,
  id: string,
  reason: string,
  failedForMs: number,
): Promise<SubscriptionRow | undefined> {
  const row = await tx.first<SubscriptionRow>(
    subscriptionChange(
      tenant,
      sql`
        update platform.webhook_subscriptions set is_active = false, disabled_reason = ${reason}, updated_at = now()
        where id = ${id}::uuid and is_active and (${failedForMs}::bigint = 0 or exists (
          select from platform.webhook_health as h
          where h.subscription_id = ${id}::uuid and h.failing_since <= now() - ${failedForMs}::bigint * interval '1 ms'))`,
    ),
  );
  if (row === undefined) return undefined;
  const cause = {
    tenantId: tenant.id,
    actor: null,
    triggeredBy: 'system',
    depth: 0,
    rootEventId: null,
    chainRuns: 0,
  } as const;
  await appendEvent(tx, 'webhook.disabled', cause, { subscription_id: id, entity: row.entity_name, reason });
  return row;
}

async function mailAdmins(app: App, tenant: Tenant, row: SubscriptionRow, reason: string): Promise<void> {
  const admins = await app.db.rows<{ email: string }>(sql`
    select email from ${identifier(tenant.schema, 'users')} where is_active and role in ('owner', 'admin')
    order by created_at, id limit ${LIMITS.mail.perDay}`);
  const { host } = new URL(row.url);
  const name = onOneLine(tenant.name);
  const text = `The webhook subscription ${row.id} of ${name}, for ${row.entity_name} to ${host}, was disabled: ${reason}.\n\nIts deliveries wait. Once the receiver works, activate the subscription (PUT /api/webhooks/subscriptions/${row.id} with { "is_active": true }); failed deliveries can be sent again.\n`;
  forTenant(tenant.id, () => {
    const subject = `A webhook of ${name} was disabled`;
    // After a refusal, the tenant has no more mails today, or no room in the queue.
    for (const { email } of admins) if (!app.mail.send({ to: email, subject, text })) break;
  });
}
