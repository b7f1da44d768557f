// Webhook subscriptions: which changes of an entity are sent to which URL. The secret only signs requests and is never
// returned. Tenant admins only, because a webhook carries whole records.
// Contract: interface#subscription, interface#subscriptions, decisions#webhook-requests.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { catalogOf } from '../../entities/catalog.ts';
import { conflict, notFound, type Problem } from '../../errors.ts';
import { RECORD_EVENTS } from '../../events/event.ts';
import { check } from '../../http/check.ts';
import { closed, Ignored, nullable, oneOf, optional, Timestamp, Uuid } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { isUuid, newId } from '../../runtime/ids.ts';
import { identifier, join, type Sql, sql } from '../../runtime/sql.ts';
import { isDayUsedUp } from '../dispatch/delivery-quota.ts';
import { resolveReceiver, urlFault } from '../transport/receiver.ts';

const { urlMax, secretMax, descriptionMax, subscriptionsMax } = LIMITS.webhook;
export const EventType = oneOf(RECORD_EVENTS);
export const SubscriptionSchema = Type.Object(
  {
    id: Uuid,
    entity_name: Type.String({ examples: ['task'] }),
    event_types: Type.Array(EventType),
    url: Type.String({ examples: ['https://receiver.example/hooks'] }),
    description: nullable(Type.String()),
    is_active: Type.Boolean(),
    has_secret: Type.Boolean({ description: 'the secret itself is never returned' }),
    health: Type.Object({
      state: oneOf(['ok', 'quota_exceeded'], {
        description: '`quota_exceeded`: further deliveries wait for the next UTC day',
        examples: ['ok'],
      }),
    }),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { $id: 'WebhookSubscription' },
);
type Subscription = Static<typeof SubscriptionSchema>;
type SubscriptionRow = Omit<Subscription, 'health'>;

const Members = {
  event_types: Type.Array(EventType, {
    minItems: 1,
    error: `must name one or more of ${RECORD_EVENTS.join(', ')}`,
    examples: [['record.created', 'record.updated']],
  }),
  url: Type.String({
    maxLength: urlMax,
    error: `must be a URL of at most ${urlMax} characters`,
    examples: ['https://receiver.example/hooks'],
  }),
  secret: optional(
    Type.String({
      maxLength: secretMax,
      description: 'signs every request; null or empty for none',
      examples: ['whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlcg=='],
    }),
  ),
  description: optional(Type.String({ maxLength: descriptionMax })),
  is_active: Type.Optional(Type.Boolean()),
};
export const NewSubscription = closed({ entity_name: Type.String({ examples: ['task'] }), ...Members });
export type NewSubscription = Static<typeof NewSubscription>;
/** Omitted members keep their value; null clears it. A subscription may be sent back as it was returned. */
export const SubscriptionChange = Type.Partial(
  closed({
    entity_name: Type.String({ error: 'cannot be changed', examples: ['task'] }),
    ...Members,
    id: Ignored,
    has_secret: Ignored,
    health: Ignored,
    created_at: Ignored,
    updated_at: Ignored,
  }),
);
export type SubscriptionChange = Static<typeof SubscriptionChange>;

const COLUMNS = sql`id, entity as entity_name, event_types, url, description, is_active, secret is not null as has_secret,
  created_at, updated_at`;

/** 400 with every problem, 404 for an unknown entity, 409 for a duplicate (entity, URL, events) and at the tenant's limit. */
export async function createSubscription(app: App, caller: TenantCaller, body: NewSubscription): Promise<Subscription> {
  const problems = await urlProblems(app, body.url);
  const values = stored(check(NewSubscription, body, () => problems));
  const entity = (await catalogOf(app, caller.tenant)).byName.get(body.entity_name);
  if (entity === undefined) throw notFound('entity');
  const row = await writeSubscription(
    app,
    caller,
    sql`
      insert into platform.webhook_subscriptions (id, tenant_id, entity_id, entity, event_types, url, secret,
        description, is_active, created_by)
      select ${newId()}::uuid, ${caller.tenant.id}::uuid, ${entity.id}::uuid, ${entity.name}::text,
        ${values.event_types}::text[], ${values.url}::text, ${values.secret ?? null}::text,
        ${values.description ?? null}::text, ${values.is_active ?? true}::boolean, ${caller.id}::text
      where ${subscriptionsMax}::int > (
        select count(*) from platform.webhook_subscriptions where tenant_id = ${caller.tenant.id}::uuid)`,
  );
  if (row === undefined) throw conflict(`a tenant has at most ${subscriptionsMax} subscriptions`);
  return shown(app, caller, row);
}

/** Newest first; of one entity when `entity` is given. */
export async function listSubscriptions(app: App, caller: TenantCaller, entity?: string): Promise<Subscription[]> {
  const rows = await app.db.rows<SubscriptionRow>(sql`
    select ${COLUMNS} from platform.webhook_subscriptions
    where tenant_id = ${caller.tenant.id}::uuid and (${entity ?? null}::text is null or entity = ${entity ?? null})
    order by id desc`);
  const health = await healthOf(app, caller);
  return rows.map((row) => ({ ...row, health }));
}

async function shown(app: App, caller: TenantCaller, row: SubscriptionRow): Promise<Subscription> {
  return { ...row, health: await healthOf(app, caller) };
}

/** Of all the tenant's subscriptions: they share its quota of deliveries. */
async function healthOf(app: App, { tenant }: TenantCaller): Promise<Subscription['health']> {
  return { state: (await isDayUsedUp(app.db, tenant)) ? 'quota_exceeded' : 'ok' };
}

/** 404 for another tenant's subscription, 409 for a duplicate. */
export async function updateSubscription(
  app: App,
  caller: TenantCaller,
  id: string,
  body: SubscriptionChange,
): Promise<Subscription> {
  const { entity_name: entityName } = await findSubscription(app, caller, id);
  const problems = await urlProblems(app, body.url);
  if ((body.entity_name ?? entityName) !== entityName) {
    problems.push({ path: 'entity_name', message: 'cannot be changed' });
  }
  const { event_types, url, secret, description, is_active } = stored(check(SubscriptionChange, body, () => problems));
  const sets: Sql[] = [sql`updated_at = now()`];
  if (event_types !== undefined) sets.push(sql`event_types = ${event_types}::text[]`);
  if (url !== undefined) sets.push(sql`url = ${url}`);
  if (secret !== undefined) sets.push(sql`secret = ${secret}`);
  if (description !== undefined) sets.push(sql`description = ${description}`);
  if (is_active !== undefined) sets.push(sql`is_active = ${is_active}::boolean`);
  const row = await writeSubscription(
    app,
    caller,
    sql`
      update platform.webhook_subscriptions set ${join(sets, ', ')}
      where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid`,
  );
  if (row === undefined) throw notFound('subscription');
  return shown(app, caller, row);
}

/** Deletes the subscription with its deliveries. 404 for another tenant's. */
export async function deleteSubscription(app: App, caller: TenantCaller, id: string): Promise<void> {
  await findSubscription(app, caller, id);
  await writeSubscription(
    app,
    caller,
    sql`delete from platform.webhook_subscriptions where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid`,
  );
}

/**
 * Runs the statement and increments the version of the entity's definition. Writes take the subscribed event types from
 * the definition and check its version, so that they miss no committed subscription.
 */
async function writeSubscription(app: App, caller: TenantCaller, statement: Sql): Promise<SubscriptionRow | undefined> {
  const { id, schema } = caller.tenant;
  const written = app.db.first<SubscriptionRow>(sql`
    with changed as (${statement} returning *),
    definition as (
      update ${identifier(schema, 'entity_definitions')} as d set version = d.version + 1
      from changed as c
      where d.id = c.entity_id
    )
    select ${COLUMNS} from changed`);
  const row = await written.catch((error: { constraint_name?: unknown }) => {
    if (error.constraint_name !== 'webhook_subscriptions_key') throw error;
    throw conflict('a subscription with the same entity, URL and events exists');
  });
  await app.invalidations.publish('catalog', id);
  await app.invalidations.publish('webhook', id);
  return row;
}

/** 404 for another tenant's subscription. */
export async function findSubscription(app: App, caller: TenantCaller, id: string): Promise<SubscriptionRow> {
  if (!isUuid(id)) throw notFound('subscription');
  const row = await app.db.first<SubscriptionRow>(sql`
    select ${COLUMNS} from platform.webhook_subscriptions
    where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid`);
  if (row === undefined) throw notFound('subscription');
  return row;
}

/** The members in stored form: event types unique and ordered, an empty secret as null. */
function stored<T extends SubscriptionChange>({ event_types: types, secret, ...members }: T) {
  const event_types = types && RECORD_EVENTS.filter((type) => types.includes(type));
  return { ...members, event_types, secret: secret === '' ? null : secret };
}

/** A name that does not resolve yet is accepted: every delivery resolves it again. */
async function urlProblems(app: App, url: unknown): Promise<Problem[]> {
  if (typeof url !== 'string' || url.length > urlMax) return [];
  const fault = urlFault(url);
  if (fault !== undefined) return [{ path: 'url', message: fault }];
  const receiver = await resolveReceiver(app, url, LIMITS.webhook.lookupMs);
  if (!('fault' in receiver && receiver.isForbidden)) return [];
  return [{ path: 'url', message: 'leads to an address that webhooks must not reach' }];
}
