// Webhook subscriptions of a test's tenant and their deliveries, over the API. Times are milliseconds.
import { setTimeout as delay } from 'node:timers/promises';
import { type Queries, sql } from '../../src/runtime/sql.ts';
import type { Client, Json } from './service.ts';

export const SUBSCRIPTIONS = '/api/webhooks/subscriptions';
const EVENT_TYPES = ['record.created', 'record.updated', 'record.deleted'];

/** Subscribes `url` to all changes of `task`, or as `input` says; resolves to the subscription. */
export async function subscribe(tenant: Client, url: string, input: Record<string, unknown> = {}): Promise<Json> {
  const answer = await tenant.post(SUBSCRIPTIONS, { entity_name: 'task', event_types: EVENT_TYPES, url, ...input });
  if (answer.status !== 201) throw new Error(`no subscription: ${answer.text}`);
  return answer.body.data;
}

/** The deliveries of a subscription, at most 500, newest first. */
export async function deliveriesOf(tenant: Client, id: string): Promise<Json[]> {
  const answer = await tenant.get(`${SUBSCRIPTIONS}/${id}/deliveries?limit=500`);
  if (answer.status !== 200) throw new Error(`no deliveries: ${answer.text}`);
  return answer.body.data;
}

/** The deliveries once there are at least `count` and none is pending. */
export async function settledDeliveries(tenant: Client, id: string, count = 1, withinMs = 60_000): Promise<Json[]> {
  const startedAt = performance.now();
  // Reading a long list over and over would take the time that the deliveries need.
  for (; ; await delay(Math.min(20 + (performance.now() - startedAt) / 10, 250))) {
    const isLate = performance.now() > startedAt + withinMs;
    const deliveries = await deliveriesOf(tenant, id);
    if (deliveries.length >= count && deliveries.every(({ status }) => status !== 'pending')) return deliveries;
    if (isLate) throw new Error(`deliveries are still pending: ${JSON.stringify(deliveries)}`);
  }
}

/** Resolves when every change of the tenant so far has been judged for its subscriptions. */
export async function judgedChanges(db: Queries, tenantId: string): Promise<void> {
  for (;;) {
    const waiting = await db.rows(sql`
      select from platform.webhook_deliveries as d
      where d.tenant_id = ${tenantId}::uuid and d.status = 'pending'
        and not exists (select from platform.webhook_subscriptions as s where s.id = d.subscription_id)`);
    if (waiting.length === 0) return;
    await delay(10);
  }
}
