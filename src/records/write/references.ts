// Relations between records: a target must exist when it is named, and deleting a record deletes or clears what refers
// to it. Rows are locked as they are found, so no reference is left behind.
// Failures: 409 under `restrict`. Contract: decisions#fields.
import type { TenantCaller } from '../../access/caller.ts';
import { allows } from '../../access/rights.ts';
import { accessScopeOf } from '../../entities/access-scope.ts';
import type { Catalog } from '../../entities/catalog.ts';
import type { Entity, Field, Reference } from '../../entities/field.ts';
import type { SlotValues } from '../../entities/values.ts';
import { conflict, invalid, type Problem, type ServiceError } from '../../errors.ts';
import { columnOf, toSql } from '../../expression/to-sql.ts';
import { type Queries, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';
import type { WritingInTransaction } from './context.ts';
import { deleteRows, type RelationTarget, updateRows } from './statements.ts';
import { applyRules, businessRuleError, type PreparedRow } from './triggers.ts';

const R = sql`r`;

/** Values to be written. Slots in `setByRule` need no right of the caller's. */
export interface RelationValues {
  data: SlotValues;
  setByRule?: ReadonlySet<string>;
}

/** The records that the values point at; the caller must see them. */
export function targetsOf(
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
  rows: readonly RelationValues[],
): RelationTarget[] {
  return entity.fields.flatMap((field) => targetsIn(catalog, caller, field, rows));
}

function targetsIn(
  catalog: Catalog,
  caller: TenantCaller,
  field: Field,
  rows: readonly RelationValues[],
): RelationTarget[] {
  const entity = field.targetId === null ? undefined : catalog.byId.get(field.targetId);
  if (entity === undefined) return [];
  const isSetByRule = ({ setByRule }: RelationValues): boolean => setByRule?.has(field.slot) === true;
  const given = idsIn(
    field,
    rows.filter((row) => !isSetByRule(row)),
  );
  const set = idsIn(field, rows.filter(isSetByRule));
  const targets: RelationTarget[] = set.length === 0 ? [] : [{ table: entity.table, ids: set, rowFilter: null }];
  if (given.length === 0) return targets;
  if (!allows(caller.rights, 'read', entity.name)) {
    return [...targets, { table: entity.table, ids: given, rowFilter: sql`false` }];
  }
  const { rowFilter } = accessScopeOf(catalog, caller, entity);
  return [...targets, { table: entity.table, ids: given, rowFilter: rowFilter && toSql(rowFilter, R) }];
}

function idsIn(field: Field, rows: readonly RelationValues[]): string[] {
  return [...new Set(rows.flatMap(({ data }) => (data[field.slot] ?? []) as string | string[]))];
}

/** 400 for each relation value that points at nothing the caller may see; returns when there is none. */
export async function requireTargets(
  queries: Queries,
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
  values: RelationValues,
): Promise<void> {
  const error = await missingTargets(queries, catalog, caller, entity, values);
  if (error !== undefined) throw error;
}

/** The error for relation values that point at nothing the caller may see; undefined when there are none. */
export async function missingTargets(
  queries: Queries,
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
  values: RelationValues,
): Promise<ServiceError | undefined> {
  const problems: Problem[] = [];
  for (const field of entity.fields) {
    const [target] = targetsIn(catalog, caller, field, [values]);
    if (target === undefined) continue;
    const found = await queries.rows<{ id: string }>(sql`
      select r.id from ${target.table} as r
      where r.id = any(${[...target.ids]}::uuid[]) and ${target.rowFilter ?? sql`true`}`);
    const missing = target.ids.filter((id) => !found.some((row) => row.id === id));
    if (missing.length === 0) continue;
    // The caller may not know the field or the record.
    if (values.setByRule?.has(field.slot)) return businessRuleError('a rule names a record that does not exist');
    problems.push({ path: field.key, message: `no such record: ${missing.slice(0, 5).join(', ')}` });
  }
  return problems.length === 0 ? undefined : invalid(problems);
}

/**
 * Deletes locked rows of an entity, after what refers to them: 409 under `restrict`, cleared under `set_null`, deleted
 * under `cascade`. Changes of other entities need no right of the caller's. `deleted` ends a circle of cascades.
 */
export async function deleteWithReferences(
  writing: WritingInTransaction,
  catalog: Catalog,
  entity: Entity,
  rows: readonly RecordRow[],
  deleted: Set<string> = new Set(),
): Promise<void> {
  for (const row of rows) deleted.add(row.id);
  const prepared: PreparedRow[] = [];
  for (const row of rows) {
    prepared.push(await applyRules(writing, catalog, entity, { operation: 'delete', before: row, after: row }));
  }
  for (const reference of entity.references) {
    const referring = (await rowsReferring(writing.tx, reference, rows)).filter((row) => !deleted.has(row.id));
    if (referring.length === 0) continue;
    const from = catalog.byId.get(reference.entity.id) ?? reference.entity;
    const { onDelete } = reference.field;
    if (onDelete === 'cascade') await deleteWithReferences(writing, catalog, from, referring, deleted);
    else if (onDelete === 'set_null') await clearReferences(writing, catalog, from, reference.field, referring, rows);
    else throw conflict(`still referred to by ${referring.length} record(s) of ${from.name}`);
  }
  const gone = await deleteRows(writing.publication, entity, prepared);
  if (gone.size < rows.length) throw conflict('concurrent modification; try again');
}

async function rowsReferring(tx: Tx, { entity, field }: Reference, rows: readonly RecordRow[]): Promise<RecordRow[]> {
  return tx.rows<RecordRow>(sql`
    select ${RECORD_COLUMNS} from ${entity.table} as r where ${pointsAt(field, rows)} order by r.id for update`);
}

function pointsAt(field: Field, rows: readonly RecordRow[]): Sql {
  const ids = rows.map(({ id }) => id);
  if (field.type === 'relation') return sql`${columnOf(field.ref, R)} = any(${ids}::text[])`;
  return sql`r.data -> ${field.slot}::text ?| ${ids}::text[]`;
}

async function clearReferences(
  writing: WritingInTransaction,
  catalog: Catalog,
  entity: Entity,
  field: Field,
  referring: readonly RecordRow[],
  deleted: readonly RecordRow[],
): Promise<void> {
  const ids = new Set(deleted.map(({ id }) => id));
  if (field.required && field.type === 'relation') {
    throw conflict(
      `still referred to by ${referring.length} record(s) of ${entity.name}, where ${field.key} is required`,
    );
  }
  const cleared: PreparedRow[] = [];
  for (const before of referring) {
    const { [field.slot]: value, ...rest } = before.data;
    const kept = Array.isArray(value) ? { [field.slot]: value.filter((item) => !ids.has(item)) } : {};
    const after = { ...before, data: { ...rest, ...kept } };
    cleared.push(await applyRules(writing, catalog, entity, { operation: 'update', before, after }));
  }
  const updated = await updateRows(writing.publication, entity, cleared, new Date().toISOString());
  if (updated.size < cleared.length) throw conflict('concurrent modification; try again');
}
