// A batch: operations of one kind, in few statements. It is applied as a whole or not at all; when some of its operations
// fail, the error says which and why. However large the records are, few of them are in memory at once.
// Contract: decisions#bulk, decisions#import, neighbours#byte-budgets.
import { requireRight } from '../../access/caller.ts';
import type { AccessScope } from '../../entities/access-scope.ts';
import type { Catalog } from '../../entities/catalog.ts';
import { unwrap } from '../../entities/values.ts';
import { notFound } from '../../errors.ts';
import { rowsPerStatement } from '../../events/publication.ts';
import { isUuid } from '../../runtime/ids.ts';
import { type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { areWritesLimited } from '../../usage/write-quotas.ts';
import { lockRows } from '../read/read.ts';
import { COLUMNS_WITHOUT_DATA, RECORD_COLUMNS, type RecordRow, requireVersion } from '../row.ts';
import { duplicatesAmong, isDuplicate } from '../write/constraints.ts';
import {
  inStatement,
  inTransaction,
  type OpenWrite,
  type Turn,
  type WriteContext,
  type Writing,
  type WritingInTransaction,
  writingWith,
} from '../write/context.ts';
import { deleteWithReferences } from '../write/deletion.ts';
import { prepareCreate, prepareUpdate } from '../write/prepare.ts';
import { targetsOf } from '../write/references.ts';
import { insertRows, updateRows } from '../write/statements.ts';
import { hasRules } from '../write/triggers.ts';

import {
  type Batch,
  type BatchItem,
  forEachItem,
  lockedBudget,
  prepareSome,
  reject,
  rejectOrStale,
  resultsOf,
  type ToResult,
} from './items.ts';
import { applyUpserts } from './upsert.ts';

/**
 * Applies items of a batch, all of them or none: in a transaction every item, otherwise only as many of the first items as fit
 * into one statement. Resolves to the results of the applied items, in order.
 */
export async function applyBatch<T>(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  batch: Batch,
  toResult: ToResult<T>,
): Promise<T[]> {
  const isAhead = canPrepareAhead(context, scope, batch);
  if (!isAhead) await context.turn?.(false);
  if (batch.op === 'upsert') return applyUpserts(context, catalog, scope, batch, toResult);
  const { op, items: given } = batch;
  if (op === 'create' && given.some(({ id }) => id !== '')) {
    return applyUpserts(context, catalog, scope, { by: null, items: given }, toResult);
  }
  const type = `record.${op}d` as const;
  const items = context.tx === null ? given.slice(0, rowsPerStatement({ entity: scope.entity, type })) : given;
  await forEachItem(items, () => requireRight(context.caller, op, scope.entity.name));
  if (op === 'update') {
    return inTransaction(context, (open) => updateAll(writingWith(open, catalog), scope, items, toResult));
  }
  if (op === 'delete') {
    return inTransaction(context, (open) => deleteAll(writingWith(open, catalog), scope, items, toResult));
  }
  if (context.tx !== null) {
    return inTransaction(context, (open) => createAll(writingWith(open, catalog), scope, items, toResult));
  }
  const turn = isAhead ? context.turn : undefined;
  const create = (open: OpenWrite) => createSome(writingWith(open, catalog), scope, items, toResult, turn);
  if (areWritesLimited(context.caller)) return inTransaction(context, create);
  const change = { entity: scope.entity, type: 'record.created', isSingle: false } as const;
  return inStatement(context, change, create);
}

/**
 * Whether the batch can be prepared while an earlier one is still being written: preparing must read nothing that the earlier
 * one may change, neither records (for rules and row filters) nor quotas.
 */
function canPrepareAhead(
  { caller, tx }: WriteContext,
  { entity, rowFilter }: AccessScope,
  { op, items }: Batch,
): boolean {
  const isPlain = entity.rules.length === 0 && rowFilter === null && tx === null && !areWritesLimited(caller);
  return isPlain && op === 'create' && items.every(({ id }) => id === '');
}

/** Creates all items in a transaction, with as many statements as they need. */
async function createAll<T>(
  writing: Writing,
  scope: AccessScope,
  items: readonly BatchItem[],
  toResult: ToResult<T>,
): Promise<T[]> {
  const results: T[] = [];
  while (results.length < items.length) {
    results.push(...(await createSome(writing, scope, items.slice(results.length), toResult)));
  }
  return results;
}

/** Creates the records of the first items in one statement, once `turn` resolves. Resolves to their results. */
async function createSome<T>(
  writing: Writing,
  scope: AccessScope,
  items: readonly BatchItem[],
  toResult: ToResult<T>,
  turn?: Turn,
): Promise<T[]> {
  const { tx, publication } = writing;
  const { entity } = scope;
  const bodies = items.map(({ body }) => unwrap(scope, body));
  writing.evaluator.expect(entity, (field) => bodies.map((body) => body[field.key] ?? field.default));
  const prepared = await prepareSome(
    scope,
    items,
    rowsPerStatement({ entity, type: 'record.created' }),
    toResult,
    async ({ body }) => {
      const row = await prepareCreate(writing, scope, body);
      return { row, changed: row, outcome: 'created' };
    },
  );
  const rows = prepared.map(({ row }) => row);
  try {
    const targets = targetsOf(writing, entity, rows);
    if ((await insertRows(publication, entity, rows, targets, { turn })).length === rows.length)
      return resultsOf(prepared);
  } catch (error) {
    // A failed transaction takes no more queries.
    if (tx === null && isDuplicate(error)) reject(items, await duplicatesAmong(writing, entity, rows));
    throw error;
  }
  return rejectOrStale(writing, entity, items, rows);
}

async function updateAll<T>(
  writing: WritingInTransaction,
  scope: AccessScope,
  items: readonly BatchItem[],
  toResult: ToResult<T>,
): Promise<T[]> {
  const { entity } = scope;
  const before = await lockItems(writing.tx, scope, items, RECORD_COLUMNS);
  writing.evaluator.expect(entity, ({ key, slot }) =>
    items.map(({ id, body }) => unwrap(scope, body)[key] ?? before.get(id.toLowerCase())?.data[slot]),
  );
  const results: T[] = [];
  while (results.length < items.length) {
    const rest = items.slice(results.length);
    const at = new Date().toISOString();
    const prepared = await prepareSome(scope, rest, rest.length, toResult, async (item) => {
      const { row, changed } = await prepareUpdate(writing, scope, rowIn(before, item), item.body);
      return { row: { ...row, updated_at: at }, changed, outcome: 'updated' };
    });
    const rows = prepared.map(({ row }) => row);
    const values = prepared.map(({ changed }) => changed);
    const targets = targetsOf(writing, entity, values);
    const count = await updateRows(writing.publication, entity, rows, at, targets);
    if (count < rows.length) return rejectOrStale(writing, entity, rest, values);
    results.push(...resultsOf(prepared));
  }
  return results;
}

async function deleteAll<T>(
  writing: WritingInTransaction,
  scope: AccessScope,
  items: readonly BatchItem[],
  toResult: ToResult<T>,
): Promise<T[]> {
  const { entity } = scope;
  const before = await lockItems(
    writing.tx,
    scope,
    items,
    hasRules(entity, 'delete') ? RECORD_COLUMNS : COLUMNS_WITHOUT_DATA,
  );
  const prepared = await forEachItem(items, (item) => {
    const row = rowIn(before, item);
    return { row, result: toResult(scope, item, row, 'deleted') };
  });
  await deleteWithReferences(
    writing,
    entity,
    prepared.map(({ row }) => row),
  );
  return resultsOf(prepared);
}

/** Locks the rows of the items. Resolves to the rows that the caller sees, by id. */
async function lockItems(
  tx: Tx,
  scope: AccessScope,
  items: readonly BatchItem[],
  columns: Sql,
): Promise<Map<string, RecordRow>> {
  const ids = items.map(({ id }) => id.toLowerCase()).filter(isUuid);
  const among = sql`r.id = any(${ids}::uuid[])`;
  const found = await lockRows(tx, scope, among, columns, lockedBudget(ids.length));
  return new Map(found.map((row) => [row.id, row]));
}

/** The item's row. 404, 412. */
function rowIn(rows: ReadonlyMap<string, RecordRow>, { id, versions = null }: BatchItem): RecordRow {
  const row = rows.get(id.toLowerCase());
  if (row === undefined) throw notFound('record');
  requireVersion(row, versions, 'its etag');
  return row;
}
