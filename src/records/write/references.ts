// Relations between records: the target of a relation must exist, and the caller must see it, unless a rule has set the
// relation. The statement of a write locks the targets, so that they exist until it is committed.
// Failures: 400. Contract: decisions#fields, decisions#writes-within-a-role.
import { allows } from '../../access/rights.ts';
import { accessScopeOf } from '../../entities/access-scope.ts';
import type { Entity, Field } from '../../entities/field.ts';
import type { SlotValues } from '../../entities/values.ts';
import { invalid, type Problem } from '../../errors.ts';
import { toSql } from '../../expression/to-sql.ts';
import { type Sql, sql } from '../../runtime/sql.ts';
import type { Writing } from './context.ts';
import type { RelationTarget } from './statements.ts';
import { businessRuleError } from './triggers.ts';

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

/** 400 for relation values without a target that the caller may see. */
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
