// The delivery log: lists deliveries, shows one with its body and attempts, redelivers one by hand, and sends a test
// delivery. A redelivery keeps its id, its body and its position among the events of its record. Times are milliseconds.
// Contract: interface#delivery, decisions#deliveries.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { conflict, invalidField, notFound } from '../../errors.ts';
import type { RecordEventType } from '../../events/event.ts';
import { notifyCommitted } from '../../events/publication.ts';
import { nullable, oneOf, Timestamp, Uuid } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { isUuid, lowestIdAt, newId } from '../../runtime/ids.ts';
import { join, literal, type Sql, sql } from '../../runtime/sql.ts';
import { keptSince } from '../../tenants/tenants.ts';
import { Judge } from '../audience.ts';
import { IS_HELD } from '../dispatch/held.ts';
import { exampleBody, exampleSource } from '../example.ts';
import { EventType } from './shapes.ts';
import { findSubscription } from './subscriptions.ts';

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

const AttemptSchema = Type.Object({
  at: Timestamp,
  durationMs: Type.Integer({ minimum: 0, examples: [35] }),
  http_status: nullable(Type.Integer({ examples: [503] })),
  error: nullable(Type.String({ examples: ['status 503'] })),
  responseText: nullable(
    Type.String({ description: 'the start of the response, at most 1 KiB', examples: ['the shop is closed'] }),
  ),
});
/** The response for a single delivery. */
export const DeliveryDetail = Type.Object(
  {
    ...DeliverySchema.properties,
    body: nullable(Type.String({ description: 'the request body as sent; null before the first attempt has ended' })),
    attempts: Type.Array(AttemptSchema, { description: `the latest ${LIMITS.webhook.attemptsKept}, oldest first` }),
  },
  { $id: 'WebhookDeliveryDetail' },
);

/** An attempt as dispatch/results.ts stores it. */
type StoredAttempt = [at: number, durationMs: number, status: number | null, error: string | null, text: string | null];

const COLUMNS = sql`d.id, 'evt_' || d.event_id as event_id, d.type as event, d.status, d.http_status, d.attempt_count,
  d.error, d.created_at, d.completed_at,
  case when d.status = 'pending' and not (${IS_HELD}) then date_trunc('milliseconds', d.next_at) end as next_attempt_at`;

export interface DeliveryQuery {
  status?: Delivery['status'] | undefined;
  event?: RecordEventType | undefined;
  /** The id of a delivery: only older ones. */
  before?: string | undefined;
  limit: number;
}

/** A condition of deliveries `d` that are kept. */
function isKept(app: App, { tenant }: TenantCaller): Sql {
  return sql`and d.id >= ${lowestIdAt(new Date(keptSince(app, tenant)).toISOString())}::uuid`;
}

/** Newest first. 400 for a `before` that is no id, 404 for another tenant's subscription. */
export async function listDeliveries(
  app: App,
  caller: TenantCaller,
  subscriptionId: string,
  { status, event, before, limit }: DeliveryQuery,
): Promise<Delivery[]> {
  await findSubscription(app, caller, subscriptionId);
  if (before !== undefined && !isUuid(before)) throw invalidField('before', 'must be the id of a delivery');
  const conditions: Sql[] = [isKept(app, caller)];
  // A literal, so that the index of failed deliveries serves it.
  if (status !== undefined) conditions.push(sql`and d.status = ${literal(status)}`);
  if (event !== undefined) conditions.push(sql`and d.type = ${event}`);
  if (before !== undefined) conditions.push(sql`and d.id < ${before}::uuid`);
  return app.db.rows<Delivery>(sql`
    select ${COLUMNS} from platform.webhook_deliveries as d
    where d.subscription_id = ${subscriptionId}::uuid and d.tenant_id = ${caller.tenant.id}::uuid
      ${join(conditions, ' ')}
    order by d.id desc
    limit ${limit}::int`);
}

/** A delivery with its body and attempts. 404 for another tenant's. */
export async function readDelivery(app: App, caller: TenantCaller, id: string): Promise<Static<typeof DeliveryDetail>> {
  if (!isUuid(id)) throw notFound('delivery');
  const row = await app.db.first<Delivery & { body: string | null; attempts: StoredAttempt[] | null }>(sql`
    select ${COLUMNS}, d.body, d.attempts from platform.webhook_subscriptions as s
    join platform.webhook_deliveries as d on d.subscription_id = s.id and d.tenant_id = s.tenant_id
    where s.tenant_id = ${caller.tenant.id}::uuid and d.id = ${id}::uuid ${isKept(app, caller)}`);
  if (row === undefined) throw notFound('delivery');
  const attempts = (row.attempts ?? []).map(([at, durationMs, status, error, responseText]) => ({
    at: new Date(at).toISOString(),
    durationMs,
    http_status: status,
    error,
    responseText,
  }));
  return { ...row, attempts };
}

/** Sends a delivery again at once, with a new set of retries. 404 for another tenant's, 409 while it is in flight. */
export async function redeliver(app: App, caller: TenantCaller, id: string): Promise<Delivery> {
  if (!isUuid(id)) throw notFound('delivery');
  const row = await app.db.first<Delivery>(sql`
    update platform.webhook_deliveries as d
    set status = 'pending', next_at = now(), attempts_before = d.attempt_count, is_counted = false, completed_at = null, claim_id = null
    from platform.webhook_subscriptions as s
    where s.tenant_id = ${caller.tenant.id}::uuid and d.subscription_id = s.id and d.tenant_id = s.tenant_id
      and d.id = ${id}::uuid ${isKept(app, caller)}
      and (d.claim_id is null or d.next_at <= now())
    returning ${COLUMNS}`);
  notifyCommitted(app, { tenantId: caller.tenant.id });
  return row ?? failRedelivery(app, caller, id);
}

async function failRedelivery(app: App, caller: TenantCaller, id: string): Promise<never> {
  const known = await app.db.first(sql`
    select from platform.webhook_subscriptions as s
    join platform.webhook_deliveries as d on d.subscription_id = s.id and d.tenant_id = s.tenant_id
    where s.tenant_id = ${caller.tenant.id}::uuid and d.id = ${id}::uuid ${isKept(app, caller)}`);
  if (known === undefined) throw notFound('delivery');
  throw conflict('the delivery is in flight');
}

/**
 * Sends an event of the first subscribed type, about an imaginary record with values that fit the fields, as the
 * subscription shows it. 404 for another tenant's subscription, 409 for an inactive one, or when there is nothing to show.
 */
export async function sendTest(app: App, caller: TenantCaller, subscriptionId: string): Promise<Delivery> {
  const subscription = await findSubscription(app, caller, subscriptionId);
  if (!subscription.is_active) throw conflict('the subscription is inactive');
  const { tenant, id: by } = caller;
  const event = { id: newId(), recordId: newId(), type: subscription.event_types[0] as RecordEventType };
  const at = new Date().toISOString();
  const content = { audience: subscription, include: subscription.include };
  const source = exampleSource({ ...event, at, entityId: subscription.entity_id, by }, content);
  const sent = { ...source, eventId: event.id, type: event.type, tenantId: tenant.id };
  const body = await exampleBody(app, await Judge.of(app, tenant), sent);
  if (body === null) throw conflict('there is no entity that the subscription may show');
  const row = await app.db.first<Delivery>(sql`
    insert into platform.webhook_deliveries as d (id, subscription_id, tenant_id, event_id, event_seq, event_at, record_id,
      type, body)
    values (${newId()}::uuid, ${subscriptionId}::uuid, ${tenant.id}::uuid, ${event.id}::uuid, 0,
      ${at}::timestamptz, ${event.recordId}::uuid, ${event.type}, ${body})
    returning ${COLUMNS}`);
  notifyCommitted(app, { tenantId: tenant.id });
  return row as Delivery;
}
