// Statements that change a subscription. Each one increments the version of the definitions that the subscription concerns. A write
// takes the subscribed event types from the definition and checks its version, so it misses no committed subscription.
// Failures: 409 for a duplicate. Contract: interface#subscriptions.
import type { App } from '../../app.ts';
import { type Catalog, loadCatalog } from '../../entities/catalog.ts';
import { lockCatalog, lockDefinitions } from '../../entities/entities.ts';
import { conflict } from '../../errors.ts';
import { deleteDeliveries } from '../../events/deletion.ts';
import { EVERY_ENTITY } from '../../events/entity-change.ts';
import type { RecordEventType } from '../../events/event.ts';
import { identifier, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import type { Tenant } from '../../tenants/tenants.ts';
import type { Include } from '../content.ts';

export interface SubscriptionRow {
  id: string;
  entity_id: string;
  entity_name: string;
  event_types: RecordEventType[];
  url: string;
  description: string | null;
  is_active: boolean;
  disabled_reason: string | null;
  has_secret: boolean;
  role: string | null;
  filters: string | null;
  field_ids: string[] | null;
  include: Include[] | null;
  secret_previous_until: string | null;
  created_at: string;
  updated_at: string;
}

export const COLUMNS = sql`id, entity_id, entity as entity_name, event_types, url, description, is_active, disabled_reason,
  secret is not null as has_secret, role, filters, field_ids, include, created_at, updated_at,
  case when secret_previous_until > now() then secret_previous_until end as secret_previous_until`;

/** The statement with the change of the definitions; its result is the changed subscription. */
export function subscriptionChange({ schema }: Tenant, statement: Sql): Sql {
  return sql`
    with changed as (${statement} returning *),
    definition as (
      update ${identifier(schema, 'entity_definitions')} as d set version = d.version + 1
      from changed as c
      where c.entity_id in (d.id, ${EVERY_ENTITY}::uuid)
    )
    select ${COLUMNS} from changed`;
}

/**
 * Runs the statement that is built from the definitions, and its accompanying work in the same transaction; undefined when it changed
 * nothing. With `isLocked`, the definitions cannot change until then: no field that a condition names is renamed or dropped, and an
 * entity that is being created counts as well.
 */
export async function writeSubscription(
  app: App,
  tenant: Tenant,
  statementOf: (catalog: Catalog) => Sql,
  isLocked: boolean,
  further: (tx: Tx) => Promise<void> = async () => {},
): Promise<SubscriptionRow | undefined> {
  const written = app.db.begin(async (tx) => {
    const catalog = await (isLocked ? lockCatalog(tx, tenant) : loadCatalog(tx, tenant));
    const statement = statementOf(catalog);
    const row = await tx.first<SubscriptionRow>(subscriptionChange(tenant, statement));
    await further(tx);
    return row;
  });
  const row = await written.catch((error: { constraint_name?: unknown }) => {
    if (error.constraint_name !== 'webhook_subscriptions_key') throw error;
    throw conflict('a subscription with the same entity, URL and events exists');
  });
  await publishChange(app, tenant);
  return row;
}

/** Deletes the subscription with all its deliveries, without the time limit of a request's statements. */
export async function deleteWithDeliveries(app: App, tenant: Tenant, id: string, isOfAll: boolean): Promise<void> {
  const own = sql`id = ${id}::uuid and tenant_id = ${tenant.id}::uuid`;
  await app.db.slow.begin(async (tx) => {
    if (isOfAll) await lockDefinitions(tx, tenant.schema);
    await deleteDeliveries(tx, own);
    await tx.first(subscriptionChange(tenant, sql`delete from platform.webhook_subscriptions where ${own}`));
  });
  await publishChange(app, tenant);
}

/** Announces that subscriptions of the tenant have changed. */
export async function publishChange(app: App, tenant: Tenant): Promise<void> {
  await Promise.all([app.invalidations.publish('catalog', tenant.id), app.invalidations.publish('webhook', tenant.id)]);
}
