// Webhook subscriptions: which changes of an entity are sent to which URL. The secret only signs requests and is never
// returned. Tenant admins only, because a webhook carries whole records.
// Contract: interface#subscription, interface#subscriptions, decisions#webhook-requests.
import type { Static } from '@sinclair/typebox';
import type { TenantCaller } from '../../access/caller.ts';
import { rolesOf } from '../../access/role-store.ts';
import type { App } from '../../app.ts';
import { type Catalog, catalogOf } from '../../entities/catalog.ts';
import type { Entity } from '../../entities/field.ts';
import { conflict, invalid, notFound, type Problem } from '../../errors.ts';
import { EVERY_ENTITY } from '../../events/entity-change.ts';
import { RECORD_EVENTS } from '../../events/event.ts';
import { receivedBudget } from '../../http/bounded-response.ts';
import { check } from '../../http/check.ts';
import { LIMITS } from '../../limits.ts';
import { isUuid, newId } from '../../runtime/ids.ts';
import { join, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { type Audience, type AudienceInput, audienceFrom } from '../audience.ts';
import { INCLUDES } from '../content.ts';
import { resolveReceiver, urlFault } from '../transport/receiver.ts';
import { forgetFailures, healthOf, statesOf } from './health.ts';
import { NewSubscription, type Subscription, SubscriptionChange, type SubscriptionDetail } from './shapes.ts';
import { COLUMNS, deleteWithDeliveries, type SubscriptionRow, writeSubscription } from './write-subscription.ts';

const { urlMax, subscriptionsMax } = LIMITS.webhook;
/** The name of all entities. */
const ALL = '*';
const EVERYTHING: Audience = { role: null, filters: null, field_ids: null };

/** 400 with every problem, 404 for an unknown entity, 409 for a duplicate (entity, URL, events) and at the tenant's limit. */
export async function createSubscription(app: App, caller: TenantCaller, body: NewSubscription): Promise<Subscription> {
  const problems = await urlProblems(app, body.url);
  const values = stored(check(NewSubscription, body, () => problems));
  const roles = await rolesOf(app, caller.tenant);
  const added = (catalog: Catalog): Sql => {
    const entity = entityNamed(catalog, values.entity_name);
    const { tenant } = caller;
    const { role, filters, field_ids } = checkedAudience({ tenant, catalog, roles }, entity, values, EVERYTHING);
    return sql`
      insert into platform.webhook_subscriptions (id, tenant_id, entity_id, entity, event_types, url, secret,
        description, is_active, created_by, role, filters, field_ids, include)
      select ${newId()}::uuid, ${caller.tenant.id}::uuid, ${entity?.id ?? EVERY_ENTITY}::uuid, ${entity?.name ?? ALL}::text,
        ${values.event_types}::text[], ${values.url}::text, ${values.secret ?? null}::text,
        ${values.description ?? null}::text, ${values.is_active ?? true}::boolean, ${caller.id}::text,
        ${role}::text, ${filters}::text, ${field_ids}::uuid[], ${values.include ?? null}::text[]
      where ${subscriptionsMax}::int > (
        select count(*) from platform.webhook_subscriptions where tenant_id = ${caller.tenant.id}::uuid)`;
  };
  const row = await writeSubscription(app, caller.tenant, added, needsLock(values.entity_name, values));
  if (row === undefined) throw conflict(`a tenant has at most ${subscriptionsMax} subscriptions`);
  return withState(app, caller, row);
}

/** Whether the definitions must be locked while the subscription is written. */
function needsLock(entityName: string, { filters }: AudienceInput): boolean {
  return entityName === ALL || filters != null;
}

/** Null for all entities; 404. */
function entityNamed({ byName }: Catalog, name: string): Entity | null {
  if (name === ALL) return null;
  const entity = byName.get(name);
  if (entity === undefined) throw notFound('entity');
  return entity;
}

/** 400 with every problem. */
function checkedAudience(...given: Parameters<typeof audienceFrom>): Audience {
  const { audience, problems } = audienceFrom(...given);
  if (problems.length > 0) throw invalid(problems);
  return audience;
}

/** Newest first; of one entity when `entity` is given. */
export async function listSubscriptions(app: App, caller: TenantCaller, entity?: string): Promise<Subscription[]> {
  const subscriptions = sql`
    select ${COLUMNS} from platform.webhook_subscriptions
    where tenant_id = ${caller.tenant.id}::uuid and (${entity ?? null}::text is null or entity = ${entity ?? null})
    order by id desc`;
  // The bytes are counted as they arrive: a thousand subscriptions may take megabytes.
  const rows = await app.db.rows<SubscriptionRow>(subscriptions, receivedBudget());
  const states = await statesOf(app, caller.tenant, rows);
  const catalog = await catalogOf(app, caller.tenant);
  return rows.map((row, i) => ({ ...shown(row, catalog), health: states[i] as Subscription['health'] }));
}

/** A subscription with its full health. 404 for another tenant's. */
export async function readSubscription(
  app: App,
  caller: TenantCaller,
  id: string,
): Promise<Static<typeof SubscriptionDetail>> {
  const row = await findSubscription(app, caller, id);
  const catalog = await catalogOf(app, caller.tenant);
  return { ...shown(row, catalog), health: await healthOf(app, caller.tenant, row) };
}

async function withState(app: App, { tenant }: TenantCaller, row: SubscriptionRow): Promise<Subscription> {
  const [health] = await statesOf(app, tenant, [row]);
  return { ...shown(row, await catalogOf(app, tenant)), health: health as Subscription['health'] };
}

/** Members that a subscription does not use are left out. */
function shown(row: SubscriptionRow, catalog: Catalog): Omit<Subscription, 'health'> {
  const {
    entity_id: entityId,
    field_ids: ids,
    disabled_reason,
    role,
    filters,
    include,
    secret_previous_until,
    ...always
  } = row;
  const ownFields = catalog.byId.get(entityId)?.fields ?? [];
  const fields = ids === null ? null : ownFields.filter(({ id }) => ids.includes(id)).map(({ key }) => key);
  const used = { disabled_reason, role, filters, fields, include, secret_previous_until };
  return { ...always, ...Object.fromEntries(Object.entries(used).filter(([, value]) => value !== null)) };
}

/** 404 for another tenant's subscription, 409 for a duplicate. */
export async function updateSubscription(
  app: App,
  caller: TenantCaller,
  id: string,
  body: SubscriptionChange,
): Promise<Subscription> {
  const before = await findSubscription(app, caller, id);
  const { entity_name: entityName } = before;
  const problems = await urlProblems(app, body.url);
  if ((body.entity_name ?? entityName) !== entityName) {
    problems.push({ path: 'entity_name', message: 'cannot be changed' });
  }
  if (body.keepPreviousForHours !== undefined && body.secret === undefined) {
    problems.push({ path: 'keepPreviousForHours', message: 'needs a new secret' });
  }
  const values = stored(check(SubscriptionChange, body, () => problems));
  const { event_types, url, secret, description, is_active, keepPreviousForHours: hours = 0 } = values;
  const { tenant } = caller;
  const roles = await rolesOf(app, tenant);
  const changed = (catalog: Catalog): Sql => {
    const entity = entityNamed(catalog, entityName);
    const { role, filters, field_ids } = checkedAudience({ tenant, catalog, roles }, entity, values, before);
    const sets: Sql[] = [sql`updated_at = now()`];
    if (event_types !== undefined) sets.push(sql`event_types = ${event_types}::text[]`);
    if (url !== undefined) sets.push(sql`url = ${url}`);
    if (secret !== undefined) sets.push(newSecret(secret, hours));
    if (values.role !== undefined) sets.push(sql`role = ${role}`);
    if (values.filters !== undefined) sets.push(sql`filters = ${filters}`);
    if (values.fields !== undefined) sets.push(sql`field_ids = ${field_ids}::uuid[]`);
    if (values.include !== undefined) sets.push(sql`include = ${values.include}::text[]`);
    if (description !== undefined) sets.push(sql`description = ${description}`);
    if (is_active !== undefined) sets.push(sql`is_active = ${is_active}::boolean, disabled_reason = null`);
    return sql`
      update platform.webhook_subscriptions set ${join(sets, ', ')}
      where id = ${id}::uuid and tenant_id = ${tenant.id}::uuid`;
  };
  const forget = is_active === true && !before.is_active ? (tx: Tx) => forgetFailures(tx, id) : undefined;
  const row = await writeSubscription(app, tenant, changed, needsLock(entityName, values), forget);
  if (row === undefined) throw notFound('subscription');
  return withState(app, caller, row);
}

/** If the new secret equals the current one, the previous secret is kept, so that a repeated request changes nothing. */
function newSecret(secret: string | null, hours: number): Sql {
  const isSame = sql`secret is not distinct from ${secret}::text`;
  return sql`secret = ${secret},
    secret_previous = case when ${secret}::text is null or ${hours}::int = 0 then null
      when ${isSame} then secret_previous else secret end,
    secret_previous_until = case when ${secret}::text is null or ${hours}::int = 0 then null
      when ${isSame} and secret_previous is null then null
      else now() + ${hours}::int * interval '1 hour' end`;
}

/** Deletes the subscription with its deliveries. 404 for another tenant's. */
export async function deleteSubscription(app: App, caller: TenantCaller, id: string): Promise<void> {
  const { entity_id: entityId } = await findSubscription(app, caller, id);
  await deleteWithDeliveries(app, caller.tenant, id, entityId === EVERY_ENTITY);
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

/** The members in stored form: event types unique and ordered, an empty secret and an empty list as null. */
function stored<T extends SubscriptionChange>({ event_types: types, secret, include: included, ...members }: T) {
  const event_types = types && RECORD_EVENTS.filter((type) => types.includes(type));
  const include = included?.length ? INCLUDES.filter((part) => included.includes(part)) : included && null;
  return { ...members, event_types, include, secret: secret === '' ? null : secret };
}

/** A name that does not resolve yet is accepted: every delivery resolves it again. */
async function urlProblems(app: App, url: unknown): Promise<Problem[]> {
  if (typeof url !== 'string' || url.length > urlMax) return [];
  const fault = urlFault(url);
  if (fault !== undefined) return [{ path: 'url', message: fault }];
  const receiver = await resolveReceiver(app, url, LIMITS.webhook.lookupMs);
  if (!('fault' in receiver && receiver.isForbidden)) return [];
  return [{ path: 'url', message: `leads to an address that webhooks must not reach; ${cureOf(app)}` }];
}

/** On the embedded database, the service probably runs on the caller's own machine. */
function cureOf({ config }: App): string {
  const allow = 'WEBHOOK_ALLOWED_CIDRS of the service allows private ranges';
  if (config.databaseUrl !== null) return allow;
  return `${allow}, such as 127.0.0.0/8, and \`tds webhooks listen --forward-to <url>\` sends changes to this machine without it`;
}
