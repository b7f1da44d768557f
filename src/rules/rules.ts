// Definitions of business rules, which tenant admins create, change and delete. A rule is part of its entity's definition: a change of the
// rule increments the definition's version, and a write that was prepared under the old rules is prepared again.
// Failures: 400 with every problem, 404, 409 at the limit per entity. Contract: decisions#rules.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import { requireDefinitionsFit } from '../entities/definition-size.ts';
import { lockCatalog } from '../entities/entities.ts';
import { conflict, invalidField, notFound } from '../errors.ts';
import { receivedBudget } from '../http/bounded-response.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { identifier, type Queries, sql, type Tx } from '../runtime/sql.ts';
import { jsonBytes } from '../runtime/text.ts';
import { type NewRule, type RuleChange, type RuleDefinition, readRule } from './definition.ts';

type RuleRow = Omit<RuleDefinition, 'entity'> & { entity_id: string };

const COLUMNS = sql`id, name, entity_id, trigger, condition, action, priority, is_active as "isActive",
  created_at as "createdAt", updated_at as "updatedAt"`;

/** The rules of the tenant or of one entity, in execution order. 404 for an unknown entity. */
export async function listRules(app: App, caller: TenantCaller, entityName?: string): Promise<RuleDefinition[]> {
  const catalog = await catalogOf(app, caller.tenant);
  const entity = entityName === undefined ? undefined : catalog.byName.get(entityName);
  if (entityName !== undefined && entity === undefined) throw notFound('entity');
  const rules = sql`
    select ${COLUMNS} from ${identifier(caller.tenant.schema, 'business_rules')}
    where ${entity === undefined ? sql`true` : sql`entity_id = ${entity.id}::uuid`}
    order by priority, id`;
  // The bytes are counted as they arrive, so that few large lists are in memory at once.
  const rows = await app.db.rows<RuleRow>(rules, receivedBudget());
  return rows.map((row) => toDefinition(row, catalog));
}

export async function getRule(app: App, caller: TenantCaller, id: string): Promise<RuleDefinition> {
  return toDefinition(await ruleRow(app.db, caller, id), await catalogOf(app, caller.tenant));
}

/** Creates a rule, which takes effect with the next write. */
export async function createRule(app: App, caller: TenantCaller, body: NewRule): Promise<RuleDefinition> {
  return changeDefinition(app, caller, async (tx, catalog) => {
    const rule = await readRule(catalog, caller, body);
    await requireDefinitionsFit(tx, caller.tenant.schema, jsonBytes(body));
    const table = identifier(caller.tenant.schema, 'business_rules');
    const row = await tx.first<RuleRow>(sql`
      insert into ${table} (id, name, entity_id, trigger, condition, action, priority, is_active)
      select ${newId()}::uuid, ${rule.name}, ${rule.entity.id}::uuid, ${rule.trigger}, ${rule.condition},
        ${JSON.stringify(rule.action)}::text::jsonb, ${rule.priority}::int, ${rule.isActive}::boolean
      where (select count(*) from ${table} where entity_id = ${rule.entity.id}::uuid) < ${LIMITS.rules.perEntityMax}::int
      returning ${COLUMNS}`);
    if (row === undefined) throw conflict(`an entity has at most ${LIMITS.rules.perEntityMax} rules`);
    return { row, catalog };
  });
}

/** Changes the given members; `entity` cannot change. The resulting rule is validated as a whole. */
export async function updateRule(
  app: App,
  caller: TenantCaller,
  id: string,
  body: RuleChange,
): Promise<RuleDefinition> {
  return changeDefinition(app, caller, async (tx, catalog) => {
    const before = toDefinition(await ruleRow(tx, caller, id), catalog);
    if (body.entity !== undefined && body.entity !== before.entity) throw invalidField('entity', 'cannot be changed');
    const { id: _, createdAt, updatedAt, ...definition } = before;
    const rule = await readRule(catalog, caller, { ...definition, ...body });
    const added = jsonBytes({ ...definition, ...body }) - jsonBytes(definition);
    if (added > 0) await requireDefinitionsFit(tx, caller.tenant.schema, added);
    const row = await tx.first<RuleRow>(sql`
      update ${identifier(caller.tenant.schema, 'business_rules')}
      set name = ${rule.name}, trigger = ${rule.trigger}, condition = ${rule.condition},
        action = ${JSON.stringify(rule.action)}::text::jsonb, priority = ${rule.priority}::int,
        is_active = ${rule.isActive}::boolean, updated_at = now()
      where id = ${before.id}::uuid
      returning ${COLUMNS}`);
    if (row === undefined) throw notFound('rule');
    return { row, catalog };
  });
}

/** Deletes a rule and returns its id; its pending runs are not executed. 404. */
export async function deleteRule(app: App, caller: TenantCaller, id: string): Promise<string> {
  const { id: deleted } = await changeDefinition(app, caller, async (tx, catalog) => {
    const row = await ruleRow(tx, caller, id);
    await tx.rows(sql`
      delete from ${identifier(caller.tenant.schema, 'business_rules')} where id = ${row.id}::uuid`);
    return { row, catalog };
  });
  return deleted;
}

type DefinitionChange = (tx: Tx, catalog: Catalog) => Promise<{ row: RuleRow; catalog: Catalog }>;

/** Runs the change under the definition lock. Concurrent writes detect it by the entity's version. */
async function changeDefinition(app: App, caller: TenantCaller, change: DefinitionChange): Promise<RuleDefinition> {
  const { tenant } = caller;
  const { row, catalog } = await app.db.begin(async (tx) => {
    const changed = await change(tx, await lockCatalog(tx, tenant));
    await tx.rows(sql`
      update ${identifier(tenant.schema, 'entity_definitions')} set version = version + 1
      where id = ${changed.row.entity_id}::uuid`);
    return changed;
  });
  await app.invalidations.publish('catalog', tenant.id);
  return toDefinition(row, catalog);
}

async function ruleRow(queries: Queries, { tenant }: TenantCaller, id: string): Promise<RuleRow> {
  if (!isUuid(id)) throw notFound('rule');
  const row = await queries.first<RuleRow>(sql`
    select ${COLUMNS} from ${identifier(tenant.schema, 'business_rules')} where id = ${id}::uuid`);
  if (row === undefined) throw notFound('rule');
  return row;
}

function toDefinition({ id, name, entity_id, ...members }: RuleRow, catalog: Catalog): RuleDefinition {
  return { id, name, entity: catalog.byId.get(entity_id)?.name ?? '', ...members };
}
