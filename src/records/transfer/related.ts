// Relations named by a unique field of their target, as in `company.code`: the values of a batch are resolved to ids, with one
// query per column. The caller must be able to read the target; records that it cannot see are not found.
// Failures: a problem of the line.
// Contract: decisions#import.
import type { TenantCaller } from '../../access/caller.ts';
import { allows } from '../../access/rights.ts';
import { type AccessScope, accessScopeOf } from '../../entities/access-scope.ts';
import type { Catalog } from '../../entities/catalog.ts';
import type { Field } from '../../entities/field.ts';
import { ITEMS_MAX } from '../../entities/field-parsers.ts';
import { toSql } from '../../expression/to-sql.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { EMPTY, literal, type Queries, type Sql, sql } from '../../runtime/sql.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { hasOneOf, textOf, uniqueText } from '../batch/keys.ts';

/** Who imports, and into what. */
export interface RelationContext {
  caller: TenantCaller;
  catalog: Catalog;
  scope: AccessScope;
}

interface Related {
  relation: Field;
  by: Field;
  table: Sql;
  /** The rows of `r` that the caller sees; null for all. */
  rowFilter: Sql | null;
}

const UNKNOWN = 'is not a field of this entity';

/** The relation and field that `relation.field` names. A relation, target or field that the caller may not see is unknown. */
export function relatedBy({ caller, catalog, scope }: RelationContext, name: string): Related | { problem: string } {
  const dot = name.indexOf('.');
  const relation = dot < 0 ? undefined : scope.entity.byKey.get(name.slice(0, dot));
  const target = catalog.byId.get(relation?.targetId ?? '');
  if (relation === undefined || target === undefined || !scope.isVisible(relation)) return { problem: UNKNOWN };
  if (!allows(caller.rights, 'read', target.name)) return { problem: UNKNOWN };
  const { isVisible, rowFilter } = accessScopeOf(catalog, caller, target);
  const by = target.byKey.get(name.slice(dot + 1));
  if (by === undefined || !isVisible(by)) return { problem: `is not a field of ${target.name}` };
  if (!by.unique) return { problem: `is not unique: records of ${target.name} can be named by a unique field only` };
  return { relation, by, table: target.table, rowFilter: rowFilter && toSql(rowFilter, sql`r`) };
}

/** Values with their position in the batch. */
type Holder = readonly [number, JsonObject];

/** Replaces the members `relation.field` of the values by the ids of the records. Resolves to the problems, by position. */
export async function resolveRelated(
  queries: Queries,
  context: RelationContext,
  values: readonly JsonObject[],
): Promise<Map<number, string>> {
  const problems = new Map<number, string>();
  for (const [name, holders] of await holdersByName(values)) {
    const related = relatedBy(context, name);
    const ids = 'problem' in related ? new Map<string, string>() : await idsOf(queries, related, holders, name);
    for (const [i, members] of holders) {
      // A batch may have 30,000 names or values.
      const way = giveWay();
      if (way !== undefined) await way;
      const problem = 'problem' in related ? related.problem : replace(members, name, related, ids);
      if (problem !== undefined) problems.set(i, `${name.slice(0, 200)}: ${problem}`);
    }
  }
  return problems;
}

/** The values that have a member `relation.field`, by its name. */
async function holdersByName(values: readonly JsonObject[]): Promise<Map<string, Holder[]>> {
  const byName = new Map<string, Holder[]>();
  for (const holder of values.entries()) {
    const way = giveWay();
    if (way !== undefined) await way;
    for (const name of Object.keys(holder[1])) {
      if (!name.includes('.')) continue;
      const holders = byName.get(name);
      if (holders === undefined) byName.set(name, [holder]);
      else holders.push(holder);
    }
  }
  return byName;
}

/** The ids of the records with the values, by the text of the value. */
async function idsOf(
  queries: Queries,
  { by, table, rowFilter }: Related,
  holders: readonly Holder[],
  name: string,
): Promise<Map<string, string>> {
  const wanted = new Set<string>();
  for (const [, { [name]: given }] of holders) {
    const way = giveWay();
    if (way !== undefined) await way;
    if (isTooLong(given)) continue;
    for (const value of [given].flat()) {
      const text = uniqueText(by, value);
      if (text !== undefined) wanted.add(text);
    }
  }
  if (wanted.size === 0) return new Map();
  const rows = await queries.rows<{ id: string; value: unknown }>(sql`
    select r.id, r.data -> ${literal(by.slot)} as value from ${table} as r
    where ${hasOneOf(by, [...wanted])}${rowFilter === null ? EMPTY : sql` and ${rowFilter}`}`);
  return new Map(rows.map(({ id, value }) => [textOf(by, value), id]));
}

/** Whether there are more values than a relation may have. */
function isTooLong(given: unknown): boolean {
  return Array.isArray(given) && given.length > ITEMS_MAX;
}

/** Replaces the values by the id or ids. */
function replace(
  members: JsonObject,
  name: string,
  { relation, by }: Related,
  ids: ReadonlyMap<string, string>,
): string | undefined {
  const { [name]: given } = members;
  delete members[name];
  if (Object.hasOwn(members, relation.key)) return `${relation.key} is given too`;
  const list = relation.type === 'relations' ? given : [given];
  if (given === null) {
    members[relation.key] = null;
    return undefined;
  }
  if (!Array.isArray(list)) return 'must be a list';
  if (isTooLong(list)) return `must have at most ${ITEMS_MAX} values`;
  const found = list.map((value) => ids.get(uniqueText(by, value) ?? ''));
  const missing = list.find((_, i) => found[i] === undefined);
  if (found.includes(undefined)) return `there is no record with ${by.key} ${shown(missing)}`;
  members[relation.key] = relation.type === 'relations' ? found : found[0];
  return undefined;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length <= 100 ? text : `${text.slice(0, 100).toWellFormed()}…`;
}
