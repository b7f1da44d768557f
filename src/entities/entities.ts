// Creates, reads, updates, drops and repairs entities. An entity is a partition of entity_records with its own
// indexes and counters. Its name is part of paths and roles and cannot change. Failures: 400, 403, 404, 409.
// Contract: decisions#entities, interface#schema-health.
import { requireRight, type TenantCaller } from '../access/caller.ts';
import { publishRevokedGrants, revokeGrants } from '../access/grants.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { conflict, forbidden, invalidField, notFound } from '../errors.ts';
import { deleteDeliveries, deleteUnjudged } from '../events/deletion.ts';
import { notifyCommitted } from '../events/publication.ts';
import { check, requireFits } from '../http/check.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { newId } from '../runtime/ids.ts';
import { cancelWaitingBuilds } from '../runtime/index-builds.ts';
import { holdBytesWaiting } from '../runtime/large-calls.ts';
import { identifier, literal, sql, type Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { visibleFields } from './access-scope.ts';
import { announceDrop, changerOf } from './announcement.ts';
import { countRecords } from './backfill.ts';
import { type Catalog, catalogOf, entityFor, insertFields, loadCatalog } from './catalog.ts';
import { indexViews, readIndexes } from './declared-indexes.ts';
import { type EntityView, type FieldView, type NewEntity, NewEntityNames } from './definition.ts';
import { requireFieldsFit, requireIndexesFit } from './definition-size.ts';
import { type Entity, type Field, tableNameOf } from './field.ts';
import { definitionValues, fieldOf, readFields } from './field-input.ts';
import { createIndex, fieldIndexCount, type IndexedEntity, requiredIndexes } from './indexes.ts';
import { matchAhead, withKnownMatches } from './patterns.ts';

/** The entities that the caller may read. The views of a tenant with many fields take megabytes, so the call first waits for its place. */
export async function listEntities(app: App, caller: TenantCaller): Promise<EntityView[]> {
  await holdBytesWaiting((await catalogOf(app, caller.tenant)).bytes);
  // Again, since the definitions may have changed during the wait.
  const catalog = await catalogOf(app, caller.tenant);
  const views: EntityView[] = [];
  for (const entity of catalog.byName.values()) {
    if (allows(caller.rights, 'read', entity.name)) views.push(viewOf(catalog, caller, entity));
    await giveWay();
  }
  return views;
}

export async function getEntity(app: App, caller: TenantCaller, name: string): Promise<EntityView> {
  requireRight(caller, 'read', name);
  const entity = await entityFor(app, caller, name);
  return viewOf(await catalogOf(app, caller.tenant), caller, entity);
}

/** The definition without the fields hidden from the caller, and without the names of targets that it may not read. */
function viewOf(catalog: Catalog, caller: TenantCaller, entity: Entity): EntityView {
  const { fields, ...view } = entityView(catalog, entity, visibleFields(caller, entity));
  const isNamed = ({ entity: target }: FieldView) => target == null || allows(caller.rights, 'read', target);
  return { ...view, fields: fields.map((field) => (isNamed(field) ? field : { ...field, entity: null })) };
}

/** The definition with some of its fields. */
export function entityView(catalog: Catalog, entity: Entity, shown: readonly Field[]): EntityView {
  const { id, name, label, description, isSystem, searchFolding, createdAt, updatedAt } = entity;
  const fields = shown.map((field) => fieldView(catalog, field));
  const indexes = indexViews(entity, shown);
  return { id, name, label, description, isSystem, searchFolding, fields, indexes, createdAt, updatedAt };
}

/** A field's definition; attributes that are not set are undefined. */
export function fieldView(catalog: Catalog, field: Field): FieldView {
  const {
    slot: _,
    slotAt: _____,
    isRetyped: _______,
    position: __,
    ref: ___,
    next: ____,
    textMax: ______,
    targetId,
    onDelete,
    ...attributes
  } = field;
  const target = targetId === null ? {} : { entity: catalog.byId.get(targetId)?.name ?? null, onDelete };
  return { ...attributes, ...target };
}

/** Creates an entity with its fields. 400 with every problem, 409 when the name is taken. */
export async function createEntity(app: App, caller: TenantCaller, body: NewEntity): Promise<EntityView> {
  const { tenant } = caller;
  requireFits(body, 'an entity', LIMITS.entity.fieldBytesMax);
  const { name, label = null, description = null, searchFolding = true, indexes = [] } = check(NewEntityNames, body);
  const id = newId();
  const matches = await matchAhead(definitionValues(body.fields));
  await app.db.begin(async (tx) => {
    const catalog = await lockCatalog(tx, tenant);
    if (catalog.byName.has(name)) throw conflict(`an entity named ${name} already exists`);
    if (catalog.byName.size >= LIMITS.entity.perTenantMax) {
      throw conflict(`a tenant has at most ${LIMITS.entity.perTenantMax} entities`);
    }
    const drafts = withKnownMatches(matches, () => readFields(body, { catalog, self: { id, name } }));
    const fields = drafts.map((draft, i) => fieldOf(draft, newId(), `f${i + 1}`, i + 1));
    const declared = readIndexes(fields, indexes);
    await insertEntity(tx, tenant, { id, name, label, description, searchFolding, fields, indexes: declared });
  });
  await app.invalidations.publish('catalog', tenant.id);
  return getEntity(app, caller, name);
}

/** Serializes changes of a tenant's definitions until the transaction ends; writes of records continue. */
export async function lockDefinitions(tx: Tx, schema: string): Promise<void> {
  await tx.rows(sql`select pg_advisory_xact_lock(hashtext('definitions'), hashtext(${schema}))`);
}

/**
 * The definitions, locked until the transaction ends: none of their entities or fields can be dropped or renamed until then.
 */
export async function lockCatalog(tx: Tx, tenant: Tenant): Promise<Catalog> {
  await lockDefinitions(tx, tenant.schema);
  return loadCatalog(tx, tenant);
}

type InsertedEntity = Pick<Entity, 'id' | 'name' | 'label' | 'description' | 'searchFolding' | 'fields' | 'indexes'>;

async function insertEntity(tx: Tx, { id: tenantId, schema }: Tenant, entity: InsertedEntity): Promise<void> {
  const { id, name, label, description, searchFolding, fields, indexes } = entity;
  await tx.rows(sql`
    insert into ${identifier(schema, 'entity_definitions')}
      (id, name, label, description, search_folding, is_in_id_order, next_slot, indexes)
    values (${id}::uuid, ${name}, ${label}, ${description}, ${searchFolding}::boolean, true, ${fields.length + 1}::int,
      ${JSON.stringify(indexes)}::text::jsonb)`);
  await insertCounters(tx, { id, tenantId });
  await storeFields(tx, schema, entity);
}

/** Stores the fields of a new entity, and creates the table of its records. 400 and 409 when they are too large. */
export async function storeFields(
  tx: Tx,
  schema: string,
  { id, fields, indexes }: Pick<Entity, 'id' | 'fields' | 'indexes'>,
): Promise<void> {
  await requireFieldsFit(tx, schema, { before: [], after: fields });
  // Its own indexes of several fields are stored already.
  if (indexes.length > 0) await requireIndexesFit(tx, schema, fieldIndexCount(fields));
  await createRecordTable(tx, schema, id, { fields, indexes, isInIdOrder: true });
  if (fields.length > 0) await insertFields(tx, schema, id, fields);
}

/** Adds the missing counters of the entity. */
export async function insertCounters(tx: Tx, { id, tenantId }: Pick<Entity, 'id' | 'tenantId'>): Promise<void> {
  await tx.rows(sql`
    insert into platform.entity_counts (tenant_id, entity_id, slot)
    select ${tenantId}::uuid, ${id}::uuid, slot from generate_series(0, ${LIMITS.counterSlots - 1}::int) as slot
    on conflict do nothing`);
}

/**
 * Creates the partition for an entity's records, with its indexes. Does nothing in a dry run, since it would lock the other
 * tables.
 */
async function createRecordTable(
  tx: Tx,
  schema: string,
  id: string,
  definition: Omit<IndexedEntity, 'tableName'>,
): Promise<void> {
  if (tx.dryRun !== undefined) return;
  const tableName = tableNameOf(id);
  const table = identifier(schema, tableName);
  await tx.rows(sql`
    create table ${table} partition of ${identifier(schema, 'entity_records')} (primary key (id))
    for values in (${literal(id)})`);
  await tx.rows(sql`create index ${identifier(`${tableName}_search`)} on ${table} using gin (search_vector)`);
  for (const index of requiredIndexes({ ...definition, tableName })) await tx.rows(createIndex({ table }, index));
}

/**
 * Drops an entity and all rights granted on it. 409 while a relation of another entity refers to it; 409 with the number
 * of records unless `confirm` is its name.
 */
export async function deleteEntity(app: App, caller: TenantCaller, name: string, confirm?: string): Promise<string> {
  const { tenant } = caller;
  const { id, revoked } = await app.db.slow.begin(async (tx) => {
    const entity = (await lockCatalog(tx, tenant)).byName.get(name);
    if (entity === undefined) throw notFound('entity');
    if (entity.isSystem) throw forbidden('a system entity cannot be deleted');
    const foreign = entity.references.find((reference) => reference.entity.id !== entity.id);
    if (foreign !== undefined) {
      throw conflict(`field ${foreign.field.key} of ${foreign.entity.name} refers to this entity; drop it first`);
    }
    await requireConfirmation(tx, entity, confirm);
    const own = sql`tenant_id = ${tenant.id}::uuid and entity_id = ${entity.id}::uuid`;
    await deleteDeliveries(tx, own);
    // A write in progress checks the definition's version, finds it gone and fails with 404.
    await tx.rows(sql`delete from ${identifier(tenant.schema, 'entity_definitions')} where id = ${entity.id}::uuid`);
    await tx.rows(sql`delete from platform.search_rebuilds where ${own}`);
    await dropRecordTable(tx, entity);
    await tx.rows(sql`delete from platform.entity_counts where ${own}`);
    const views = await tx.rows<{ slug: string }>(sql`delete from platform.views where ${own} returning slug`);
    // Rows that another process is just adding stay, and expire by themselves.
    await tx.rows(sql`
      delete from platform.slow_lists
      where ctid = any(array(select ctid from platform.slow_lists where ${own} for update skip locked))`);
    await deleteUnjudged(tx, tenant.id, entity.id);
    await tx.rows(sql`delete from platform.webhook_subscriptions where ${own}`);
    await announceDrop(tx, changerOf(caller), tenant, entity);
    const resources = [entity.name, ...views.map(({ slug }) => `view:${slug}`)];
    return { id: entity.id, revoked: await revokeGrants(tx, tenant, resources) };
  });
  await Promise.all([app.invalidations.publish('catalog', tenant.id), publishRevokedGrants(app, revoked)]);
  notifyCommitted(app, { tenantId: tenant.id, change: null });
  return id;
}

/** In a dry run the table stays: dropping it would block its readers and writers. */
async function dropRecordTable(tx: Tx, { schema, tableName, table }: Entity): Promise<void> {
  if (tx.dryRun !== undefined) return;
  await cancelWaitingBuilds(tx, schema, tableName);
  await tx.rows(sql`drop table ${table}`);
}

async function requireConfirmation(tx: Tx, entity: Entity, confirm: string | undefined): Promise<void> {
  if (confirm === entity.name) return;
  if (confirm !== undefined) throw invalidField('confirm', `must be ${entity.name}`);
  const records = await countRecords(tx, entity);
  if (records > 0) throw conflict(`${entity.name} has ${records} record(s); confirm with ?confirm=${entity.name}`);
}

/** Restores missing tables, indexes and counters of a tenant's entities; existing ones stay untouched. */
export async function repairEntities(tx: Tx, tenant: Tenant): Promise<void> {
  const entities = [...(await loadCatalog(tx, tenant)).byId.values()];
  const found = await tx.rows<{ name: string }>(sql`
    select relname::text as name from pg_class
    where relnamespace = ${tenant.schema}::regnamespace and relkind in ('r', 'p')`);
  const tables = new Set(found.map(({ name }) => name));
  for (const entity of entities.filter(({ tableName }) => !tables.has(tableName))) {
    await createRecordTable(tx, entity.schema, entity.id, entity);
    await tx.rows(sql`
      update platform.entity_counts set n = 0, bytes = 0, v = v + 1
      where tenant_id = ${tenant.id}::uuid and entity_id = ${entity.id}::uuid`);
  }
  const counted = await tx.rows<{ entity_id: string }>(sql`
    select entity_id from platform.entity_counts
    where tenant_id = ${tenant.id}::uuid
    group by entity_id having count(*) = ${LIMITS.counterSlots}::int`);
  const complete = new Set(counted.map(({ entity_id: id }) => id));
  for (const entity of entities) if (!complete.has(entity.id)) await recount(tx, entity);
  // The bytes of lost records are gone too. Writers need not wait while the remaining bytes are measured.
  await tx.rows(sql`
    update platform.entity_counts set is_measured = false where tenant_id = ${tenant.id}::uuid and slot = 0`);
  await tx.rows(sql`update platform.tenants set is_storage_measured = false where id = ${tenant.id}::uuid`);
}

/** Recounts the records into the counters. Blocks writers. */
async function recount(tx: Tx, entity: Entity): Promise<void> {
  await tx.rows(sql`lock table ${entity.table} in share row exclusive mode`);
  await insertCounters(tx, entity);
  await tx.rows(sql`
    update platform.entity_counts
    set n = case when slot = 0 then (select count(*) from ${entity.table}) else 0 end, v = v + 1, is_measured = true,
      bytes = case when slot = 0
        then (select coalesce(sum(octet_length(data::text)), 0) from ${entity.table}) else 0 end
    where tenant_id = ${entity.tenantId}::uuid and entity_id = ${entity.id}::uuid`);
}
