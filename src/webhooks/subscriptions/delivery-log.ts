// The delivery log: lists deliveries, redelivers one by hand, and sends a test delivery. A redelivery keeps its id, its
// body and its position among the events of its record.
// Contract: interface#delivery, decisions#deliveries.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type Catalog, catalogOf } from '../../entities/catalog.ts';
import { conflict, notFound } from '../../errors.ts';
import type { RecordEventType } from '../../events/event.ts';
import { notifyCommitted } from '../../events/publication.ts';
import { nullable, oneOf, Timestamp, Uuid } from '../../http/schemas.ts';
import { isUuid, newId } from '../../runtime/ids.ts';
import { sql } from '../../runtime/sql.ts';
import { payloadOf } from '../transport/payload.ts';
import { EventType, findSubscription } from './subscriptions.ts';

export const DeliverySchema = Type.Object(
  {
    id: Uuid,
    event_id: Type.String({
      description: 'the `id` in the request body',
      examples: ['evt_01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'],
    }),
    event: EventType,
    status: oneOf(['pending', 'delivered', 'failed']),
    http_status: nullable(Type.Integer()),
    attempt_count: Type.Integer({ minimum: 0 }),
    error: nullable(Type.String({ description: 'why the last attempt failed', examples: ['timeout'] })),
    created_at: Timestamp,
    next_attempt_at: nullable(Timestamp),
    completed_at: nullable(Timestamp),
  },
  { $id: 'WebhookDelivery' },
);
export type Delivery = Static<typeof DeliverySchema>;

const COLUMNS = sql`d.id, 'evt_' || d.event_id as event_id, d.type as event, d.status, d.http_status, d.attempt_count,
  d.error, d.created_at, d.completed_at,
  case when d.status = 'pending' then date_trunc('milliseconds', d.next_at) end as next_attempt_at`;

/** Newest first. 404 for another tenant's subscription. */
export async function listDeliveries(
  app: App,
  caller: TenantCaller,
  subscriptionId: string,
  limit: number,
): Promise<Delivery[]> {
  await findSubscription(app, caller, subscriptionId);
  return app.db.rows<Delivery>(sql`
    select ${COLUMNS} from platform.webhook_deliveries as d
    where d.subscription_id = ${subscriptionId}::uuid and d.tenant_id = ${caller.tenant.id}::uuid
    order by d.id desc
    limit ${limit}::int`);
}

/** Sends a delivery again at once, with a new set of retries. 404 for another tenant's, 409 while it is in flight. */
export async function redeliver(app: App, caller: TenantCaller, id: string): Promise<Delivery> {
  if (!isUuid(id)) throw notFound('delivery');
  const row = await app.db.first<Delivery>(sql`
    update platform.webhook_deliveries as d
    set status = 'pending', next_at = now(), attempts_before = d.attempt_count, completed_at = null, claim_id = null
    from platform.webhook_subscriptions as s
    where s.tenant_id = ${caller.tenant.id}::uuid and d.subscription_id = s.id and d.id = ${id}::uuid
      and (d.claim_id is null or d.next_at <= now())
    returning ${COLUMNS}`);
  notifyCommitted(app, { tenantId: caller.tenant.id });
  return row ?? failRedelivery(app, caller, id);
}

async function failRedelivery(app: App, caller: TenantCaller, id: string): Promise<never> {
  const known = await app.db.first(sql`
    select from platform.webhook_subscriptions as s
    join platform.webhook_deliveries as d on d.subscription_id = s.id
    where s.tenant_id = ${caller.tenant.id}::uuid and d.id = ${id}::uuid`);
  if (known === undefined) throw notFound('delivery');
  throw conflict('the delivery is in flight');
}

/**
 * Sends an event of the first subscribed type, about an imaginary record without values. 404 for another tenant's
 * subscription, 409 for an inactive one.
 */
export async function sendTest(app: App, caller: TenantCaller, subscriptionId: string): Promise<Delivery> {
  const subscription = await findSubscription(app, caller, subscriptionId);
  if (!subscription.is_active) throw conflict('the subscription is inactive');
  const { entity_name: name, event_types } = subscription;
  const type = event_types[0] as RecordEventType;
  const { eventId, recordId, at, body } = exampleEvent(await catalogOf(app, caller.tenant), caller, name, type);
  const row = await app.db.first<Delivery>(sql`
    insert into platform.webhook_deliveries as d (id, subscription_id, tenant_id, event_id, event_seq, event_at, record_id,
      type, body)
    values (${newId()}::uuid, ${subscriptionId}::uuid, ${caller.tenant.id}::uuid, ${eventId}::uuid, 0,
      ${at}::timestamptz, ${recordId}::uuid, ${type}, ${body})
    returning ${COLUMNS}`);
  notifyCommitted(app, { tenantId: caller.tenant.id });
  return row as Delivery;
}

function exampleEvent(catalog: Catalog, caller: TenantCaller, entityName: string, type: RecordEventType) {
  const entity = catalog.byName.get(entityName);
  if (entity === undefined) throw notFound('entity');
  const at = new Date().toISOString();
  const [eventId, recordId] = [newId(), newId()];
  const by = { created_by: caller.id, updated_by: caller.id };
  const row = { id: recordId, version: 1, data: {}, created_at: at, updated_at: at, ...by };
  const body = payloadOf({ eventId, type, tenantId: caller.tenant.id, at, row }, entity);
  return { eventId, recordId, at, body };
}
