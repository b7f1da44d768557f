// A batch: operations of one kind, in one statement where possible. It is applied as a whole or not at all; when some
// of its operations fail, the error says which and why. `applyIndependently` then applies the others, for imports and
// for bulk requests that are not atomic. Contract: decisions#bulk, decisions#import.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeOf } from '../../entities/access-scope.ts';
import { type Catalog, catalogOf, forgetCatalog } from '../../entities/catalog.ts';
import type { Entity } from '../../entities/field.ts';
import { unwrap } from '../../entities/values.ts';
import { conflict, notFound, ServiceError } from '../../errors.ts';
import { isUuid } from '../../runtime/ids.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import type { Tx } from '../../runtime/sql.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { lockRows } from '../read/read.ts';
import type { RecordRow } from '../row.ts';
import { duplicatesAmong, isDuplicate, translateViolation } from '../write/constraints.ts';
import {
  autocommit,
  inStatement,
  inTransaction,
  MAX_ATTEMPTS,
  type OpenWrite,
  type WriteContext,
  type Writing,
  type WritingInTransaction,
  writingWith,
} from '../write/context.ts';
import { prepareCreate, prepareUpdate } from '../write/prepare.ts';
import { deleteWithReferences, type RelationValues, requireTargets, targetsOf } from '../write/references.ts';
import { insertRows, updateRows } from '../write/statements.ts';

export type OperationKind = 'create' | 'update' | 'delete';

/** One operation; results and failures carry its `index`. A creation has no id, a deletion an empty body. */
export interface BatchItem {
  index: number;
  id: string;
  body: JsonObject;
}

export interface Batch {
  op: OperationKind;
  /** No two items have the same id. */
  items: readonly BatchItem[];
}

/** The operations of a batch that fail, by index. Nothing of the batch was applied. */
export class RejectedItems extends Error {
  constructor(
    readonly byIndex: ReadonlyMap<number, ServiceError>,
    /** The transaction has failed too. */
    readonly endsTransaction = false,
  ) {
    super('some operations were rejected');
  }
}

/** The definition has changed since the batch was prepared. Nothing of the batch was applied. */
export class StaleDefinition extends Error {}

/** Applies a whole batch. Resolves to the after images (for deletions, the before images) in the order of the items. */
export async function applyBatch(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  { op, items }: Batch,
): Promise<RecordRow[]> {
  await forEachItem(items, () => requireRight(context.caller, op, scope.entity.name));
  if (op === 'update') return inTransaction(context, (open) => updateAll(writingWith(open, catalog), scope, items));
  if (op === 'delete') return inTransaction(context, (open) => deleteAll(writingWith(open, catalog), scope, items));
  const create = (open: OpenWrite) => createAll(writingWith(open, catalog), scope, items);
  const change = { entity: scope.entity, type: 'record.created', isSingle: false } as const;
  return context.tx === null ? inStatement(context, change, create) : inTransaction(context, create);
}

/** Applies each operation that succeeds. Resolves to the row or error of each, by index. */
export async function applyIndependently(
  app: App,
  caller: TenantCaller,
  entityName: string,
  { op, items }: Batch,
): Promise<Map<number, RecordRow | ServiceError>> {
  const outcomes = new Map<number, RecordRow | ServiceError>();
  const pending = [items];
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    if (part.length === 0) continue;
    try {
      const rows = await tryBatch(app, caller, entityName, { op, items: part });
      part.forEach(({ index }, i) => void outcomes.set(index, rows[i] as RecordRow));
    } catch (error) {
      pending.push(...partsToRetry(part, error, outcomes));
    }
  }
  return outcomes;
}

/** Records the failures. Returns what to try next: the other items, or halves while the failing item is unknown. */
function partsToRetry(
  items: readonly BatchItem[],
  error: unknown,
  outcomes: Map<number, RecordRow | ServiceError>,
): (readonly BatchItem[])[] {
  if (error instanceof RejectedItems) {
    for (const [index, rejection] of error.byIndex) outcomes.set(index, rejection);
    return [items.filter(({ index }) => !error.byIndex.has(index))];
  }
  if (!isRejection(error)) throw error;
  const [only] = items;
  if (items.length === 1 && only !== undefined) {
    outcomes.set(only.index, error);
    return [];
  }
  const half = items.length >> 1;
  return [items.slice(half), items.slice(0, half)];
}

/** Whether an error is the operation's own, rather than the service's. */
export function isRejection(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.status < 500 && error.ecode !== 'CLIENT_GONE';
}

async function tryBatch(app: App, caller: TenantCaller, entityName: string, batch: Batch): Promise<RecordRow[]> {
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    const catalog = await catalogOf(app, caller.tenant);
    const entity = catalog.byName.get(entityName);
    if (entity === undefined) throw notFound('entity');
    try {
      return await applyBatch(autocommit(app, caller), catalog, accessScopeOf(catalog, caller, entity), batch);
    } catch (error) {
      if (error instanceof StaleDefinition) forgetCatalog(app, caller.tenant);
      else if (!isDeadlock(error)) throw translateViolation(error, entity);
    }
  }
  throw conflict('concurrent modification; try again');
}

async function createAll(writing: Writing, scope: AccessScope, items: readonly BatchItem[]): Promise<RecordRow[]> {
  const { queries, tx, publication } = writing;
  const { entity } = scope;
  const at = new Date().toISOString();
  const bodies = items.map(({ body }) => unwrap(entity, body));
  writing.evaluator.expect(entity, (field) => bodies.map((body) => body[field.key] ?? field.default));
  const rows = await forEachItem(items, async ({ body }) => ({
    ...(await prepareCreate(writing, scope, body)),
    created_at: at,
    updated_at: at,
  }));
  try {
    const targets = targetsOf(writing, entity, rows);
    if ((await insertRows(publication, entity, rows, at, targets)) === rows.length) return rows;
  } catch (error) {
    // A failed transaction takes no more queries.
    if (tx === null && isDuplicate(error)) reject(items, await duplicatesAmong(queries, entity, rows));
    throw error;
  }
  return rejectOrStale(writing, entity, items, rows);
}

async function updateAll(
  writing: WritingInTransaction,
  scope: AccessScope,
  items: readonly BatchItem[],
): Promise<RecordRow[]> {
  const { entity } = scope;
  const before = await lockItems(writing.tx, scope, items);
  const at = new Date().toISOString();
  writing.evaluator.expect(entity, ({ key, slot }) =>
    items.map(({ id, body }) => unwrap(entity, body)[key] ?? before.get(id.toLowerCase())?.data[slot]),
  );
  const prepared = await forEachItem(items, async ({ id, body }) => {
    const { row, changed } = await prepareUpdate(writing, scope, rowIn(before, id), body);
    return { row: { ...row, updated_at: at }, changed };
  });
  const rows = prepared.map(({ row }) => row);
  const values = prepared.map(({ changed }) => changed);
  const targets = targetsOf(writing, entity, values);
  if ((await updateRows(writing.publication, entity, rows, at, targets)) === rows.length) return rows;
  return rejectOrStale(writing, entity, items, values);
}

async function deleteAll(
  writing: WritingInTransaction,
  scope: AccessScope,
  items: readonly BatchItem[],
): Promise<RecordRow[]> {
  const before = await lockItems(writing.tx, scope, items);
  const rows = await forEachItem(items, ({ id }) => rowIn(before, id));
  await deleteWithReferences(writing, scope.entity, rows);
  return rows;
}

/** Locks the rows of the items. Resolves to those that the caller sees, by id. */
async function lockItems(tx: Tx, scope: AccessScope, items: readonly BatchItem[]): Promise<Map<string, RecordRow>> {
  const ids = items.map(({ id }) => id.toLowerCase()).filter(isUuid);
  return new Map((await lockRows(tx, scope, ids)).map((row) => [row.id, row]));
}

function rowIn(rows: ReadonlyMap<string, RecordRow>, id: string): RecordRow {
  const row = rows.get(id.toLowerCase());
  if (row === undefined) throw notFound('record');
  return row;
}

/** Why a statement changed nothing: relations that point at nothing, or else a changed definition. */
async function rejectOrStale(
  writing: Writing,
  entity: Entity,
  items: readonly BatchItem[],
  values: readonly RelationValues[],
): Promise<never> {
  await forEachItem(items, (_, i) => requireTargets(writing, entity, values[i] as RelationValues));
  throw new StaleDefinition();
}

/** Runs `work` for each item; throws the rejections of all of them together. */
async function forEachItem<T>(
  items: readonly BatchItem[],
  work: (item: BatchItem, i: number) => T | Promise<T>,
): Promise<T[]> {
  const done: T[] = [];
  const rejections = new Map<number, ServiceError>();
  for (const [i, item] of items.entries()) {
    try {
      done.push(await work(item, i));
    } catch (error) {
      if (!isRejection(error)) throw error;
      rejections.set(i, error);
    }
  }
  reject(items, rejections);
  return done;
}

/** Throws the rejections, keyed by the items' indexes instead of their positions; returns when there are none. */
function reject(items: readonly BatchItem[], byPosition: ReadonlyMap<number, ServiceError>): void {
  if (byPosition.size === 0) return;
  throw new RejectedItems(new Map([...byPosition].map(([i, error]) => [items[i]?.index ?? i, error])));
}
