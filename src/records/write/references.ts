// Relations between records: that a target exists when it is named, and what happens to those that
// name a record when it is deleted. Rows are locked as they are found, so no reference is left behind.
// Failures: 409 under `restrict`. Contract: decisions#fields.
import type { TenantCaller } from '../../access/caller.ts';
import { allows } from '../../access/rights.ts';
import { accessScopeOf } from '../../entities/access-scope.ts';
import type { Catalog } from '../../entities/catalog.ts';
import type { Entity, Field, Reference } from '../../entities/field.ts';
import type { SlotValues } from '../../entities/values.ts';
import { conflict, invalid, type Problem, type ServiceError } from '../../errors.ts';
import type { Cause } from '../../events/outbox.ts';
import { columnOf, toSql } from '../../expression/to-sql.ts';
import { type Queries, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';
import { deleteRows, type Target, updateRows } from './statements.ts';
import { applyRules, businessRuleError, type PreparedRow } from './triggers.ts';

const R = sql`r`;

/** Values about to be written. Those that a rule has set are the tenant's own: they need no right of the caller's. */
export interface Named {
  data: SlotValues;
  ruled?: ReadonlySet<string>;
}

/** The records that the given values point at, as the caller may see them; for the fields that are there only. */
export function targetsOf(catalog: Catalog, caller: TenantCaller, entity: Entity, rows: readonly Named[]): Target[] {
  return entity.fields.flatMap((field) => targetsIn(catalog, caller, field, rows));
}

function targetsIn(catalog: Catalog, caller: TenantCaller, field: Field, rows: readonly Named[]): Target[] {
  const entity = field.targetId === null ? undefined : catalog.byId.get(field.targetId);
  if (entity === undefined) return [];
  const isRuled = ({ ruled }: Named): boolean => ruled?.has(field.slot) === true;
  const given = idsIn(
    field,
    rows.filter((row) => !isRuled(row)),
  );
  const set = idsIn(field, rows.filter(isRuled));
  const targets: Target[] = set.length === 0 ? [] : [{ table: entity.table, ids: set, rows: null }];
  if (given.length === 0) return targets;
  const readable = accessScopeOf(catalog, caller, entity).rowFilter;
  const isReadable = allows(caller.rights, 'read', entity.name);
  const seen = isReadable ? (readable === null ? null : toSql(readable, R)) : sql`false`;
  return [...targets, { table: entity.table, ids: given, rows: seen }];
}

function idsIn(field: Field, rows: readonly Named[]): string[] {
  return [...new Set(rows.flatMap(({ data }) => (data[field.slot] ?? []) as string | string[]))];
}

/** Why values cannot be written: each relation value that points at nothing the caller may see; undefined when none does. */
export async function missingTargets(
  queries: Queries,
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
  named: Named,
): Promise<ServiceError | undefined> {
  const problems: Problem[] = [];
  for (const field of entity.fields) {
    const [target] = targetsIn(catalog, caller, field, [named]);
    if (target === undefined) continue;
    const found = await queries.rows<{ id: string }>(sql`
      select r.id from ${target.table} as r
      where r.id = any(${[...target.ids]}::uuid[]) and ${target.rows ?? sql`true`}`);
    const missing = target.ids.filter((id) => !found.some((row) => row.id === id));
    if (missing.length === 0) continue;
    // Neither field nor record need be known to the caller.
    if (named.ruled?.has(field.slot)) return businessRuleError('a rule names a record that is not there');
    problems.push({ path: field.key, message: `no such record: ${missing.slice(0, 5).join(', ')}` });
  }
  return problems.length === 0 ? undefined : invalid(problems);
}

/** The transaction of a deletion, and who asked for it: the rules of everything it touches act in it. */
interface Deleting {
  tx: Tx;
  caller: TenantCaller;
}

/** Rows that a deletion has dealt with already, so that a circle of cascades ends. */
type Done = Set<string>;

/**
 * Deletes locked rows of an entity after dealing with what points at them: refused with 409 under
 * `restrict`, cleared under `set_null`, deleted likewise under `cascade`. The whole is the
 * transaction's; what it does elsewhere needs no right of the caller's.
 */
export async function deleteWithReferences(
  deleting: Deleting,
  catalog: Catalog,
  entity: Entity,
  rows: readonly RecordRow[],
  cause: Cause,
  done: Done = new Set(),
): Promise<void> {
  const { tx } = deleting;
  const asking = { queries: tx, caller: deleting.caller };
  for (const row of rows) done.add(row.id);
  const ready: PreparedRow[] = [];
  for (const row of rows) ready.push(await applyRules(asking, catalog, entity, { moment: 'delete', old: row, row }));
  for (const reference of entity.references) {
    const referring = (await rowsReferring(tx, reference, rows)).filter((row) => !done.has(row.id));
    if (referring.length === 0) continue;
    const from = catalog.byId.get(reference.entity.id) ?? reference.entity;
    if (reference.field.onDelete === 'cascade')
      await deleteWithReferences(deleting, catalog, from, referring, cause, done);
    else if (reference.field.onDelete === 'set_null')
      await clear(deleting, catalog, from, reference.field, referring, rows, cause);
    else throw conflict(`still referred to by ${referring.length} record(s) of ${from.name}`);
  }
  const deleted = await deleteRows(tx, entity, ready, cause);
  if (deleted.size < rows.length) throw conflict('the entity changed meanwhile; try again');
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

async function clear(
  { tx, caller }: Deleting,
  catalog: Catalog,
  entity: Entity,
  field: Field,
  referring: readonly RecordRow[],
  gone: readonly RecordRow[],
  cause: Cause,
): Promise<void> {
  const ids = new Set(gone.map(({ id }) => id));
  if (field.required && field.type === 'relation') {
    throw conflict(
      `still referred to by ${referring.length} record(s) of ${entity.name}, where ${field.key} is required`,
    );
  }
  const cleared: PreparedRow[] = [];
  for (const old of referring) {
    const { [field.slot]: value, ...rest } = old.data;
    const kept = Array.isArray(value) ? { [field.slot]: value.filter((item) => !ids.has(item)) } : {};
    const row = { ...old, data: { ...rest, ...kept } };
    cleared.push(await applyRules({ queries: tx, caller }, catalog, entity, { moment: 'update', old, row }));
  }
  const updated = await updateRows(tx, entity, cleared, cause, new Date().toISOString());
  if (updated.size < cleared.length) throw conflict('the entity changed meanwhile; try again');
}
