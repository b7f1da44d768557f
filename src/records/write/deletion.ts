// Deleting records together with what refers to them: under `cascade` the referring records are deleted too, under `set_null`
// the reference is cleared, under `restrict` the deletion is refused. Referring records are read, locked and changed in
// batches, and only the ids of the records above them in a chain of cascades are kept, so that a deletion of any size and depth
// takes little memory. All of it is one transaction.
// Failures: 409 under `restrict`, 503 at the transaction's deadline.
// Contract: decisions#fields.
import { readsEveryRow, visibleFields } from '../../entities/access-scope.ts';
import type { Entity, Field, Reference } from '../../entities/field.ts';
import { conflict, type ServiceError } from '../../errors.ts';
import { storedSize } from '../../events/event.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { LEAST_ID } from '../../runtime/ids.ts';
import { NO_TABLE_SCANS, plannedOnce, type Queries, type Sql, sql } from '../../runtime/sql.ts';
import { COLUMNS_WITHOUT_DATA, RECORD_COLUMNS, type RecordRow } from '../row.ts';
import type { WritingInTransaction } from './context.ts';
import { type DoomedRow, deleteRows, updateRows } from './statements.ts';
import { applyRules, hasRules, type PreparedRow } from './triggers.ts';

/** Referring records read at once, and bytes of their values. */
const BATCH = { rows: 500, bytes: 4_194_304 };
const R = sql`r`;

/** Deletes locked rows of an entity, and deletes or clears what refers to them, even if the caller may not change it. */
export async function deleteWithReferences(
  writing: WritingInTransaction,
  entity: Entity,
  rows: readonly RecordRow[],
): Promise<void> {
  const doomed = await prepareDeletion(writing, entity, rows);
  // Every relation has an index.
  if (entity.references.length > 0) await writing.tx.rows(sql`select ${NO_TABLE_SCANS}`);
  await deletePrepared(writing, entity, doomed, new Set());
}

/**
 * What a deletion needs of the rows; their values can be released: a chain of cascades may be as long as the entity has
 * records.
 */
async function prepareDeletion(
  writing: WritingInTransaction,
  entity: Entity,
  rows: readonly RecordRow[],
): Promise<DoomedRow[]> {
  const prepared = await prepareAll(writing, entity, rows, (row) => ({ operation: 'delete', before: row, after: row }));
  writing.evaluator.expect(entity, () => []);
  return prepared.map(({ id, version, starts }) => ({ id, version, starts }));
}

/** `deleting` holds the ids whose deletion has begun and not ended; it breaks cycles of cascades. */
async function deletePrepared(
  writing: WritingInTransaction,
  entity: Entity,
  rows: readonly DoomedRow[],
  deleting: Set<string>,
): Promise<void> {
  const isNamed = deleting.size === 0;
  for (const row of rows) deleting.add(row.id);
  for (const reference of entity.references) {
    const { onDelete, required, type } = reference.field;
    const isRefused = onDelete === 'restrict' || (onDelete === 'set_null' && required && type === 'relation');
    if (isRefused) await requireNoReferring(writing, reference, rows, deleting);
    else await changeReferring(writing, reference, rows, deleting);
  }
  const count = await deleteRows(writing.publication, entity, rows);
  if (count < rows.length) throw conflict('concurrent modification; try again');
  if (!isNamed) writing.tx.dryRun?.noteReferring(count);
  for (const row of rows) deleting.delete(row.id);
}

async function prepareAll(
  writing: WritingInTransaction,
  entity: Entity,
  rows: readonly RecordRow[],
  changeOf: (row: RecordRow) => Parameters<typeof applyRules>[2],
): Promise<PreparedRow[]> {
  writing.evaluator.expect(entity, ({ slot }) => rows.map(({ data }) => data[slot]));
  const prepared: PreparedRow[] = [];
  for (const row of rows) prepared.push(await applyRules(writing, entity, changeOf(row)));
  return prepared;
}

/** Deletes or clears what refers to the rows, in batches by id. */
async function changeReferring(
  writing: WritingInTransaction,
  reference: Reference,
  rows: readonly DoomedRow[],
  deleting: Set<string>,
): Promise<void> {
  const entity = entityOf(writing, reference);
  for (let after: string | undefined = LEAST_ID; after !== undefined; ) {
    const { last, doomed } = await changeNext(writing, reference, rows, after, deleting);
    after = last;
    if (doomed.length > 0) await deletePrepared(writing, entity, doomed, deleting);
  }
}

/**
 * Clears the references of the next batch, or prepares its deletion. Its values are released before what refers to it is
 * deleted.
 */
async function changeNext(
  writing: WritingInTransaction,
  reference: Reference,
  rows: readonly DoomedRow[],
  after: string,
  deleting: ReadonlySet<string>,
): Promise<{ last: string | undefined; doomed: DoomedRow[] }> {
  const entity = entityOf(writing, reference);
  const batch = await nextReferring(writing, reference, rows, after);
  const last = batch.at(-1)?.id;
  const referring = batch.filter(({ id }) => !deleting.has(id));
  if (reference.field.onDelete === 'cascade')
    return { last, doomed: await prepareDeletion(writing, entity, referring) };
  if (referring.length > 0) await clearReferences(writing, entity, reference.field, referring, rows);
  return { last, doomed: [] };
}

/** Locks the next batch of records that refer to the rows. No new references can appear, since the rows are locked. */
async function nextReferring(
  writing: WritingInTransaction,
  reference: Reference,
  rows: readonly DoomedRow[],
  after: string,
): Promise<RecordRow[]> {
  const { entity, field } = reference;
  const refers = pointsAt(field, rows);
  const isDataNeeded = field.onDelete !== 'cascade' || hasRules(entityOf(writing, reference), 'delete');
  return writing.tx.rows<RecordRow>(sql`
    select ${isDataNeeded ? RECORD_COLUMNS : COLUMNS_WITHOUT_DATA} from ${entity.table} as r
    where ${refers} and r.id in (
      select b.id
      from (
        select n.id, sum(n.bytes) over (order by n.id) - n.bytes as bytes_before
        from (
          select r.id, ${storedSize(sql`r.data`)} as bytes from ${entity.table} as r
          where ${refers} and r.id > ${after}::uuid
          order by r.id
          limit ${BATCH.rows}::int
        ) as n
      ) as b
      where b.bytes_before < ${BATCH.bytes}::int
    )
    order by r.id
    for update`);
}

/**
 * 409 when records refer to the rows. Records that are being deleted do not count: there may be many, few of which refer to
 * these rows.
 */
async function requireNoReferring(
  writing: WritingInTransaction,
  reference: Reference,
  rows: readonly DoomedRow[],
  deleting: ReadonlySet<string>,
): Promise<void> {
  const { table } = reference.entity;
  const refers = pointsAt(reference.field, rows);
  const found = await writing.tx.rows<{ id: string }>(sql`
    select r.id from ${table} as r where ${refers} limit ${deleting.size + 1}::bigint`);
  if (found.every(({ id }) => deleting.has(id))) return;
  const counted = await writing.tx.first<{ n: number }>(sql`
    select count(*)::int as n from ${table} as r where ${refers} and not r.id = any(${[...deleting]}::uuid[])`);
  throw stillReferredTo(writing, reference, counted?.n ?? 0);
}

/** The 409. It names the referring entity, the field and the count only to callers who may see them. */
function stillReferredTo(writing: WritingInTransaction, reference: Reference, count: number): ServiceError {
  const { caller } = writing;
  const entity = entityOf(writing, reference);
  const { id, key, onDelete } = reference.field;
  const seesAll = readsEveryRow(caller, entity);
  if (!seesAll || !visibleFields(caller, entity).some((field) => field.id === id)) {
    return conflict('other records still refer to this one');
  }
  const reason = onDelete === 'restrict' ? '' : `, where ${key} is required`;
  return conflict(`still referred to by ${count} record(s) of ${entity.name}${reason}`);
}

/** Which of the records are referred to by records that are not among them. */
export async function idsReferredTo(queries: Queries, entity: Entity, ids: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  for (const { entity: referring, field } of entity.references) {
    const pointsAtIt =
      field.type === 'relation' ? sql`${columnOf(field.ref, R)} = i.id` : sql`r.data -> ${field.slot}::text ? i.id`;
    const rows = await queries.rows<{ id: string }>(
      plannedOnce(sql`
      select i.id from unnest(${[...ids]}::text[]) as i (id)
      where exists (
        select from ${referring.table} as r where ${pointsAtIt} and not r.id = any(${[...ids]}::uuid[]))`),
    );
    for (const { id } of rows) found.add(id);
  }
  return found;
}

function entityOf({ catalog }: WritingInTransaction, { entity }: Reference): Entity {
  return catalog.byId.get(entity.id) ?? entity;
}

/** A single id is compared with `=`: its index gives the referring records in their order, and Postgres expects few of them. */
function pointsAt(field: Field, rows: readonly DoomedRow[]): Sql {
  const ids = rows.map(({ id }) => id);
  const [only] = ids;
  if (field.type !== 'relation') return sql`r.data -> ${field.slot}::text ?| ${ids}::text[]`;
  const column = columnOf(field.ref, R);
  return ids.length === 1 && only !== undefined ? sql`${column} = ${only}::text` : sql`${column} = any(${ids}::text[])`;
}

async function clearReferences(
  writing: WritingInTransaction,
  entity: Entity,
  field: Field,
  referring: readonly RecordRow[],
  deleted: readonly DoomedRow[],
): Promise<void> {
  const ids = new Set(deleted.map(({ id }) => id));
  const cleared = await prepareAll(writing, entity, referring, (before) => {
    const { [field.slot]: value, ...rest } = before.data;
    const kept = Array.isArray(value) ? { [field.slot]: value.filter((item) => !ids.has(item)) } : {};
    return {
      operation: 'update',
      before,
      after: { ...before, version: before.version + 1, data: { ...rest, ...kept } },
    };
  });
  const count = await updateRows(writing.publication, entity, cleared, new Date().toISOString());
  if (count < cleared.length) throw conflict('concurrent modification; try again');
  writing.tx.dryRun?.noteReferring(count);
}
