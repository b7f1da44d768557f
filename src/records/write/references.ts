// Relations between records: the target of a relation must exist, and deleting a record deletes or clears what refers
// to it. Rows are locked as they are read, so that no reference to a deleted record remains. Failures: 409 under
// `restrict`. Contract: decisions#fields.
import { allows } from '../../access/rights.ts';
import { accessScopeOf } from '../../entities/access-scope.ts';
import type { Entity, Field, Reference } from '../../entities/field.ts';
import type { SlotValues } from '../../entities/values.ts';
import { conflict, invalid, type Problem } from '../../errors.ts';
import { columnOf, toSql } from '../../expression/to-sql.ts';
import { type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';
import type { Writing, WritingInTransaction } from './context.ts';
import { deleteRows, type RelationTarget, updateRows } from './statements.ts';
import { applyRules, businessRuleError, type PreparedRow } from './triggers.ts';

const R = sql`r`;

/** Values to write. The caller needs no right to read the targets of the slots in `setByRule`. */
export interface RelationValues {
  data: SlotValues;
  setByRule?: ReadonlySet<string>;
}

/** The records that the values point at; the caller must see them. */
export function targetsOf(writing: Writing, entity: Entity, rows: readonly RelationValues[]): RelationTarget[] {
  return entity.fields.flatMap((field) => targetsIn(writing, field, rows));
}

function targetsIn(writing: Writing, field: Field, rows: readonly RelationValues[]): RelationTarget[] {
  const entity = writing.catalog.byId.get(field.targetId ?? '');
  if (entity === undefined) return [];
  const isSetByRule = ({ setByRule }: RelationValues): boolean => setByRule?.has(field.slot) === true;
  const byRule = idsIn(field, rows.filter(isSetByRule));
  const others = rows.filter((row) => !isSetByRule(row));
  const byCaller = idsIn(field, others);
  const { table } = entity;
  const targets: RelationTarget[] = [];
  if (byRule.length > 0) targets.push({ table, ids: byRule, rowFilter: null });
  if (byCaller.length > 0) targets.push({ table, ids: byCaller, rowFilter: readFilter(writing, entity) });
  return targets;
}

function idsIn({ slot }: Field, rows: readonly RelationValues[]): string[] {
  return [...new Set(rows.flatMap(({ data }) => (data[slot] ?? []) as string | string[]))];
}

/** The condition for records that the caller may read; null when it may read all. */
function readFilter({ catalog, caller }: Writing, entity: Entity): Sql | null {
  if (!allows(caller.rights, 'read', entity.name)) return sql`false`;
  const { rowFilter } = accessScopeOf(catalog, caller, entity);
  return rowFilter && toSql(rowFilter, R);
}

/** 400 for relation values that point at nothing the caller may see. */
export async function requireTargets(writing: Writing, entity: Entity, values: RelationValues): Promise<void> {
  const problems: Problem[] = [];
  for (const field of entity.fields) {
    const [target] = targetsIn(writing, field, [values]);
    if (target === undefined) continue;
    const found = await writing.queries.rows<{ id: string }>(sql`
      select r.id from ${target.table} as r
      where r.id = any(${[...target.ids]}::uuid[]) and ${target.rowFilter ?? sql`true`}`);
    const missing = target.ids.filter((id) => !found.some((row) => row.id === id));
    if (missing.length === 0) continue;
    // The caller may not know the field or the record.
    if (values.setByRule?.has(field.slot)) throw businessRuleError('a rule names a record that does not exist');
    problems.push({ path: field.key, message: `no such record: ${missing.slice(0, 5).join(', ')}` });
  }
  if (problems.length > 0) throw invalid(problems);
}

/**
 * Deletes locked rows of an entity. Records that refer to them are first deleted under `cascade` and cleared under
 * `set_null`, even if the caller may not change them; under `restrict` they are a 409. `deleted` holds the ids deleted
 * so far, so that a cycle of cascades ends.
 */
export async function deleteWithReferences(
  writing: WritingInTransaction,
  entity: Entity,
  rows: readonly RecordRow[],
  deleted: Set<string> = new Set(),
): Promise<void> {
  for (const row of rows) deleted.add(row.id);
  const prepared: PreparedRow[] = [];
  for (const row of rows) {
    prepared.push(await applyRules(writing, entity, { operation: 'delete', before: row, after: row }));
  }
  for (const reference of entity.references) {
    const referring = (await rowsReferring(writing.tx, reference, rows)).filter((row) => !deleted.has(row.id));
    if (referring.length === 0) continue;
    const from = writing.catalog.byId.get(reference.entity.id) ?? reference.entity;
    const { onDelete } = reference.field;
    if (onDelete === 'cascade') await deleteWithReferences(writing, from, referring, deleted);
    else if (onDelete === 'set_null') await clearReferences(writing, from, reference.field, referring, rows);
    else throw conflict(`still referred to by ${referring.length} record(s) of ${from.name}`);
  }
  const count = await deleteRows(writing.publication, entity, prepared);
  if (count < rows.length) throw conflict('concurrent modification; try again');
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
    const after = { ...before, version: before.version + 1, data: { ...rest, ...kept } };
    cleared.push(await applyRules(writing, entity, { operation: 'update', before, after }));
  }
  const count = await updateRows(writing.publication, entity, cleared, new Date().toISOString());
  if (count < cleared.length) throw conflict('concurrent modification; try again');
}
