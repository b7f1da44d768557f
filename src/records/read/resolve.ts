// Expands relations: replaces ids by flat records, with one statement per target entity and level. The ids of records that the
// caller may not read stay.
// Failures: 400 beyond the limits of a response.
// Contract: decisions#resolve.
import { rowsLeft } from '../../access/bot-limits.ts';
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { readableScopeOf } from '../../entities/access-scope.ts';
import { type Catalog, catalogOf } from '../../entities/catalog.ts';
import type { Entity, Field } from '../../entities/field.ts';
import { invalidField, type ServiceError } from '../../errors.ts';
import { toSql } from '../../expression/to-sql.ts';
import { responseBudget } from '../../http/bounded-response.ts';
import { LIMITS } from '../../limits.ts';
import type { ByteBudget } from '../../runtime/byte-budget.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { EMPTY, sql } from '../../runtime/sql.ts';
import { jsonBytes } from '../../runtime/text.ts';
import type { FlatRecord } from '../record.ts';
import { columnsOf, RECORD_COLUMNS, type RecordRow, shape } from '../row.ts';

/**
 * Replaces ids by records in `items`, up to `depth` levels; `received` is for the bytes of the rows read. 400 when that
 * would expand too many records or bytes.
 */
export async function resolveRelations(
  app: App,
  caller: TenantCaller,
  entity: Entity,
  fields: readonly Field[],
  items: readonly FlatRecord[],
  depth: number,
  received: ByteBudget,
): Promise<void> {
  if (depth === 0 || items.length === 0) return;
  const catalog = await catalogOf(app, caller.tenant);
  const { recordsMax, occurrencesMax: occurrences } = LIMITS.resolve;
  const max = rowsLeft(caller, recordsMax, items.length);
  const budget = { records: max, max, occurrences, received, response: responseBudget() };
  await expand({ app, caller, catalog, budget }, [{ entity, fields, items }], depth);
}

interface Expansion {
  app: App;
  caller: TenantCaller;
  catalog: Catalog;
  /** What remains of the limits: records and bytes to read; occurrences of records in the response, and the bytes of these. */
  budget: { records: number; max: number; received: ByteBudget; occurrences: number; response: ByteBudget };
}

/** A relation and the records whose values of it are expanded. */
interface Use {
  field: Field;
  items: readonly FlatRecord[];
}

/** Records of one entity at one level. */
interface Group {
  entity: Entity;
  fields: readonly Field[];
  items: readonly FlatRecord[];
}

async function expand(expansion: Expansion, groups: readonly Group[], depth: number): Promise<void> {
  if (depth === 0) return;
  const next: Group[] = [];
  const byTarget = new Map<string, Use[]>();
  for (const { fields, items } of groups) {
    for (const field of fields) {
      if (field.targetId === null) continue;
      const uses = byTarget.get(field.targetId) ?? [];
      uses.push({ field, items });
      byTarget.set(field.targetId, uses);
    }
  }
  for (const [targetId, uses] of byTarget) {
    const group = await expandTarget(expansion, targetId, uses);
    if (group !== null) next.push(group);
  }
  await expand(expansion, next, depth - 1);
}

async function expandTarget(
  { app, caller, catalog, budget }: Expansion,
  targetId: string,
  uses: readonly Use[],
): Promise<Group | null> {
  const target = catalog.byId.get(targetId);
  const scope = target && readableScopeOf(catalog, caller, target);
  if (target === undefined || scope === undefined) return null;
  const { rowFilter, fields } = scope;
  const { ids, occurrences } = await idsNamed(uses, budget);
  if (ids.size === 0) return null;
  budget.records -= ids.size;
  // Hidden values must not count: a refusal would reveal their size.
  const columns = fields.length === target.fields.length ? RECORD_COLUMNS : columnsOf(fields);
  const { taken } = budget.received;
  const found = await app.db.rows<RecordRow>(
    sql`
    select ${columns} from ${target.table} as r
    where r.id = any(${[...ids]}::uuid[]) ${rowFilter === null ? EMPTY : sql`and ${toSql(rowFilter, sql`r`)}`}`,
    budget.received,
  );
  const isMeasured = (budget.received.taken - taken) * occurrences > LIMITS.response.largeFrom;
  const bytesById = new Map<string, number>();
  const bytesOf = (record: FlatRecord): number => {
    const bytes = bytesById.get(record.id) ?? jsonBytes(record);
    bytesById.set(record.id, bytes);
    return bytes;
  };
  // Each occurrence gets its own copy, because a record that occurs at two levels is expanded at the upper level only.
  const records: FlatRecord[] = [];
  const byId = new Map(found.map((row) => [row.id, row]));
  const recordFor = async (id: string): Promise<unknown> => {
    const row = byId.get(id);
    if (row === undefined) return id;
    if (--budget.occurrences < 0) throw tooMany(LIMITS.resolve.occurrencesMax);
    // Ten thousand copies of records with 200 fields take 150 ms.
    await giveWay();
    const record = shape(row, target, fields);
    if (isMeasured) await budget.response.takeWaiting(bytesOf(record));
    records.push(record);
    return record;
  };
  await replaceIds(uses, recordFor);
  return { entity: target, fields, items: records };
}

/** The different ids in the fields, and how many there are with repetitions. */
async function idsNamed(
  uses: readonly Use[],
  { records, max }: Expansion['budget'],
): Promise<{ ids: Set<string>; occurrences: number }> {
  const ids = new Set<string>();
  let occurrences = 0;
  for (const { field, items } of uses) {
    for (const item of items) {
      const way = giveWay();
      if (way !== undefined) await way;
      const named = [item[field.key] ?? []].flat() as string[];
      for (const id of named) ids.add(id);
      occurrences += named.length;
      if (ids.size > records) throw tooMany(max);
    }
  }
  return { ids, occurrences };
}

async function replaceIds(uses: readonly Use[], recordFor: (id: string) => Promise<unknown>): Promise<void> {
  for (const { field, items } of uses) {
    for (const item of items) {
      const way = giveWay();
      if (way !== undefined) await way;
      const value = item[field.key];
      if (typeof value === 'string') item[field.key] = await recordFor(value);
      if (!Array.isArray(value)) continue;
      const records: unknown[] = [];
      for (const id of value) records.push(await recordFor(id as string));
      item[field.key] = records;
    }
  }
}

function tooMany(records: number): ServiceError {
  return invalidField('resolve', `would expand more than ${records} records; request a smaller page`);
}
