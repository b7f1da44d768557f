// A tenant's definitions: read in one statement, so that they are consistent, and cached per process; written in a transaction
// that holds the definition lock. After a change they are read again, while calls use the previous copy: under eight attacks at
// once, waiting for the new one would take 100 to 300 ms. A stale copy is harmless: a write checks the entity's version and is
// repeated when it has changed.
// Contract: decisions#entities, decisions#fields, decisions#field-changes.
import type { TenantCaller } from '../access/caller.ts';
import { type App, perApp } from '../app.ts';
import { notFound } from '../errors.ts';
import { EVERY_ENTITY } from '../events/entity-change.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { identifier, join, notKept, type Queries, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { forTenant } from '../runtime/work.ts';
import { schemaOf, type Tenant } from '../tenants/tenants.ts';
import { type Entity, type Field, type FieldRules, type Reference, type Rule, tableNameOf } from './field.ts';
import { fieldRef } from './field-types.ts';
import { indexedTextMax, possibleIndexes } from './indexes.ts';

export interface Catalog {
  byName: ReadonlyMap<string, Entity>;
  byId: ReadonlyMap<string, Entity>;
  /** The number of announced changes (announcement.ts) that these definitions include. */
  definitionChanges: number;
  /** The approximate size of the definitions as JSON. */
  bytes: number;
}

const CACHED_TENANTS = 2_000;
const cacheOf = perApp((app) =>
  app.invalidations.cache<Catalog>(
    'catalog',
    CACHED_TENANTS,
    { max: LIMITS.entity.cachedBytesMax, of: ({ bytes }) => bytes },
    (id) => forTenant(id, () => loadCatalog(app.db, { id, schema: schemaOf(id) })),
  ),
);

/** The tenant's catalog, from the cache where possible. */
export function catalogOf(app: App, tenant: Tenant): Catalog | Promise<Catalog> {
  return cacheOf(app).get(tenant.id, () => loadCatalog(app.db, tenant));
}

/**
 * The catalog inside a transaction. A cache miss reads through the transaction itself: waiting for a second connection
 * while holding one can deadlock the pool.
 */
export function catalogWithin(app: App, tx: Tx, tenant: Tenant): Catalog | Promise<Catalog> {
  return cacheOf(app).peek(tenant.id) ?? loadCatalog(tx, tenant);
}

/** Drops this process's copy, after a write found it stale. */
export function forgetCatalog(app: App, tenant: Tenant): void {
  cacheOf(app).drop(tenant.id);
}

/** Whether the copy is older than a record: it lacks the record's entity, or a field of which the record has a value. */
export function isOlderThan({ byId }: Catalog, entityId: string, { data }: { data: Record<string, unknown> }): boolean {
  const entity = byId.get(entityId);
  return entity === undefined || Object.keys(data).some((slot) => Number(slot.slice(1)) >= entity.nextSlot);
}

/** The entity by name; 404 when there is none. The operation checks the caller's permission. */
export async function entityFor(app: App, caller: TenantCaller, name: string): Promise<Entity> {
  const entity = (await catalogOf(app, caller.tenant)).byName.get(name);
  if (entity === undefined) throw notFound('entity');
  return entity;
}

type CatalogRow = Omit<
  Entity,
  'fields' | 'byKey' | 'references' | 'rules' | 'table' | 'tableName' | 'tenantId' | 'schema'
> & { fields: FieldRow[]; rules: Rule[]; definitionChanges: number };
/** The only row of a tenant without entities. */
type NoEntity = Pick<CatalogRow, 'definitionChanges'> & { id: null };
type FieldRow = Omit<Field, keyof FieldRules | 'ref' | 'next'> & {
  entity_id: string;
  rules: FieldRules;
  next: Field | null;
};

const fieldsByEntity = (schema: string): Sql => sql`
  select f.entity_id, json_agg(f order by f.position, f.id) as list
  from (
    select id, entity_id, key, slot, type, label, description, is_required as required, is_unique as unique,
      is_indexed as indexed, default_value as default, rules, target_id as "targetId", on_delete as "onDelete",
      position, next, to_jsonb(d) ->> 'slot_at' as "slotAt",
      coalesce((to_jsonb(d) ->> 'slot_at')::timestamptz > d.created_at, false) as "isRetyped"
    from ${identifier(schema, 'field_definitions')} as d
  ) as f
  group by f.entity_id`;

const rulesByEntity = (schema: string): Sql => sql`
  select entity_id, json_agg(
      json_build_object('id', id, 'name', name, 'trigger', trigger, 'condition', condition, 'action', action)
      order by priority, id
    ) as list
  from ${identifier(schema, 'business_rules')}
  where is_active
  group by entity_id`;

/**
 * Reads the definitions. There may be many: the fields and rules of an entity arrive as JSON texts, and the event loop runs
 * between entities. A tenant that a process of the previous version has just created lacks the newest columns.
 */
export async function loadCatalog(queries: Queries, tenant: Pick<Tenant, 'id' | 'schema'>): Promise<Catalog> {
  const found = await queries.rows<CatalogRow | NoEntity>(
    notKept(sql`
    with fields as (${fieldsByEntity(tenant.schema)}), rules as (${rulesByEntity(tenant.schema)})
    select t.definition_changes::float8 as "definitionChanges", d.id, d.name, d.label, d.description, d.is_system as "isSystem", d.version, d.next_slot as "nextSlot",
      d.retired_slots as "retiredSlots", d.created_at as "createdAt", d.updated_at as "updatedAt",
      coalesce((to_jsonb(d) ->> 'search_folding')::boolean, false) as "searchFolding",
      coalesce((to_jsonb(d) ->> 'is_in_id_order')::boolean, false) as "isInIdOrder",
      coalesce(to_jsonb(d) -> 'indexes', '[]') as indexes,
      exists (select from platform.search_rebuilds as s where s.tenant_id = ${tenant.id}::uuid and s.entity_id = d.id) as "isSearchChanging", (
        select coalesce(jsonb_object_agg(a.type, a.ids), '{}')
        from (
          select t.type, jsonb_agg(distinct case when s.is_judged then d.id else s.id end) as ids
          from platform.webhook_subscriptions as s
          cross join unnest(s.event_types) as t (type)
          where s.tenant_id = ${tenant.id}::uuid and s.entity_id in (d.id, ${EVERY_ENTITY}::uuid) and s.is_active
          group by t.type
        ) as a
      ) as subscribed,
      coalesce(f.list, '[]') as fields, coalesce(r.list, '[]') as rules
    from (
      select coalesce(max(definition_changes), 0) as definition_changes from platform.tenants where id = ${tenant.id}::uuid
    ) as t
    left join ${identifier(tenant.schema, 'entity_definitions')} as d on true
    left join fields as f on f.entity_id = d.id
    left join rules as r on r.entity_id = d.id
    order by d.name collate "C"`),
  );
  const rows = found.filter((row): row is CatalogRow => row.id !== null);
  const references = new Map<string, Reference[]>(rows.map(({ id }) => [id, []]));
  const byId = new Map<string, Entity>();
  let bytes = 0;
  for (const row of rows) {
    const entity = toEntity(tenant, row, references.get(row.id) ?? []);
    byId.set(row.id, entity);
    bytes += JSON.stringify(row).length;
    for (const field of entity.fields) {
      if (field.targetId !== null) references.get(field.targetId)?.push({ entity, field });
    }
    await giveWay();
  }
  const byName = new Map([...byId.values()].map((entity) => [entity.name, entity]));
  return { byId, byName, definitionChanges: found[0]?.definitionChanges ?? 0, bytes };
}

function toEntity(
  tenant: Pick<Tenant, 'id' | 'schema'>,
  { definitionChanges: _, ...row }: CatalogRow,
  references: Reference[],
): Entity {
  const fields = row.fields.map(toField);
  const tableName = tableNameOf(row.id);
  const indexes = possibleIndexes(fields, row.indexes);
  for (const field of fields) limitText({ fields, indexes }, field);
  return {
    ...row,
    indexes,
    fields,
    byKey: new Map(fields.map((field) => [field.key, field])),
    references,
    table: identifier(tenant.schema, tableName),
    tableName,
    tenantId: tenant.id,
    schema: tenant.schema,
  };
}

function limitText(entity: Pick<Entity, 'fields' | 'indexes'>, field: Field): void {
  field.textMax = indexedTextMax(entity, field);
  if (field.next !== undefined) field.next.textMax = indexedTextMax(entity, field.next);
}

function toField({ entity_id: _, rules, next, ...row }: FieldRow): Field {
  return {
    ...row,
    ...rules,
    default: row.default ?? undefined,
    ...(next === null ? {} : { next: { ...next, ref: fieldRef(next) } }),
    ref: fieldRef(row),
  };
}

export async function insertFields(tx: Tx, schema: string, entityId: string, fields: readonly Field[]): Promise<void> {
  const [first] = fields;
  if (first === undefined) return;
  const names = Object.keys(columnsOf(first)).map((name) => identifier(name));
  const rows = fields.map(
    (field) => sql`(${field.id}::uuid, ${entityId}::uuid, ${field.position}::int,
      ${join(Object.values(columnsOf(field)), ', ')})`,
  );
  await tx.rows(sql`
    insert into ${identifier(schema, 'field_definitions')} (id, entity_id, position, ${join(names, ', ')})
    values ${join(rows, ', ')}`);
}

/** Updates all attributes of a field, and its next definition. */
export async function updateFieldRow(tx: Tx, entity: Pick<Entity, 'id' | 'schema'>, field: Field): Promise<void> {
  const columns = Object.entries(columnsOf(field)).map(([name, value]) => sql`${identifier(name)} = ${value}`);
  await tx.rows(sql`
    update ${identifier(entity.schema, 'field_definitions')}
    set ${join(columns, ', ')}
    where entity_id = ${entity.id}::uuid and id = ${field.id}::uuid`);
}

function columnsOf(field: Field): Record<string, Sql> {
  const { min, max, minLength, maxLength, pattern, options } = field;
  return {
    key: sql`${field.key}`,
    slot: sql`${field.slot}`,
    type: sql`${field.type}`,
    label: sql`${field.label}`,
    description: sql`${field.description}`,
    is_required: sql`${field.required}::boolean`,
    is_unique: sql`${field.unique}::boolean`,
    is_indexed: sql`${field.indexed}::boolean`,
    default_value: json(field.default),
    rules: json({ min, max, minLength, maxLength, pattern, options }),
    target_id: sql`${field.targetId}::uuid`,
    on_delete: sql`${field.onDelete}`,
    next: json(field.next && { ...field.next, ref: undefined, next: undefined, textMax: undefined }),
  };
}

function json(value: unknown): Sql {
  return sql`${value === undefined ? null : JSON.stringify(value)}::text::jsonb`;
}

export async function deleteFieldRow(tx: Tx, entity: Entity, fieldId: string): Promise<void> {
  await tx.rows(sql`
    delete from ${identifier(entity.schema, 'field_definitions')}
    where entity_id = ${entity.id}::uuid and id = ${fieldId}::uuid`);
}

type DefinitionChange = Partial<Pick<Entity, 'nextSlot' | 'retiredSlots' | 'isInIdOrder' | 'indexes'>>;

/** Increments the entity's version, and sets what is given. */
export async function bumpVersion(
  tx: Tx,
  entity: Entity,
  { nextSlot, retiredSlots, isInIdOrder, indexes }: DefinitionChange,
): Promise<void> {
  const parts: Sql[] = [sql`version = version + 1`, sql`updated_at = now()`];
  if (nextSlot !== undefined) parts.push(sql`next_slot = ${nextSlot}::int`);
  if (retiredSlots !== undefined) parts.push(sql`retired_slots = ${JSON.stringify(retiredSlots)}::text::jsonb`);
  if (isInIdOrder !== undefined) parts.push(sql`is_in_id_order = ${isInIdOrder}::boolean`);
  if (indexes !== undefined) parts.push(sql`indexes = ${JSON.stringify(indexes)}::text::jsonb`);
  await tx.rows(sql`
    update ${identifier(entity.schema, 'entity_definitions')}
    set ${join(parts, ', ')}
    where id = ${entity.id}::uuid`);
}
