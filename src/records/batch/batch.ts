// Many operations of one kind at once, as one statement wherever possible. A run is done as a whole
// or not at all; when some of its operations are at fault, it says which and why. `settle` then does
// the others: bulk without atomicity and imports stand on it.
// Contract: decisions#bulk, decisions#import.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeOf } from '../../entities/access-scope.ts';
import { type Catalog, catalogOf, forgetCatalog } from '../../entities/catalog.ts';
import { conflict, notFound, ServiceError } from '../../errors.ts';
import { isUuid } from '../../runtime/ids.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import type { Tx } from '../../runtime/sql.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { lockRows } from '../read/find.ts';
import type { RecordRow } from '../row.ts';
import { isDuplicate, translateViolation } from '../write/constraints.ts';
import { deleteWithReferences, missingTargets, type Named, targetsOf } from '../write/references.ts';
import { insertRows, updateRows } from '../write/statements.ts';
import {
  autocommit,
  causeOf,
  inTransaction,
  MAX_ATTEMPTS,
  prepareCreate,
  prepareUpdate,
  type WriteContext,
} from '../write/write.ts';
import { duplicatesAmong } from './duplicates.ts';

export type OperationKind = 'create' | 'update' | 'delete';

/** One operation; `index` is the caller's name for it. Creations have no id, deletions no body. */
export interface BatchItem {
  index: number;
  id: string;
  body: JsonObject;
}

export interface Batch {
  op: OperationKind;
  /** No id twice. */
  items: readonly BatchItem[];
}

/** The operations of a run that are at fault, by index. Nothing of the run was done. */
export class RejectedItems extends Error {
  constructor(
    readonly byIndex: ReadonlyMap<number, ServiceError>,
    /** Set when the transaction around cannot go on after it. */
    readonly endsTransaction = false,
  ) {
    super('some operations were refused');
  }
}

/** The definition that a run was made for is no longer the current one. Nothing of the run was done. */
export class StaleDefinition extends Error {}

type InTransaction = WriteContext & { tx: Tx };

/** Does a whole run; the rows as they now are (deleted ones: as they were), in the order of the items. */
export async function applyBatch(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  run: Batch,
): Promise<RecordRow[]> {
  const { op, items } = run;
  await each(items, () => requireRight(context.caller, op, scope.entity.name));
  if (op === 'create') return createAll(context, catalog, scope, items);
  const change = op === 'update' ? updateAll : deleteAll;
  return inTransaction(context, (inner) => change(inner, catalog, scope, items));
}

/** Does every operation that can be done; gives each one's row or the error it failed with, by index. */
export async function applyIndependently(
  app: App,
  caller: TenantCaller,
  entityName: string,
  { op, items }: Batch,
): Promise<Map<number, RecordRow | ServiceError>> {
  const outcomes = new Map<number, RecordRow | ServiceError>();
  const waiting = [items];
  for (let part = waiting.pop(); part !== undefined; part = waiting.pop()) {
    if (part.length === 0) continue;
    try {
      const rows = await tryBatch(app, caller, entityName, { op, items: part });
      part.forEach(({ index }, i) => void outcomes.set(index, rows[i] as RecordRow));
    } catch (error) {
      waiting.push(...remaining(part, error, outcomes));
    }
  }
  return outcomes;
}

/** Notes what failed; what is left to try, the last part first: without the guilty ones, or in halves until they are known. */
function remaining(
  items: readonly BatchItem[],
  error: unknown,
  outcomes: Map<number, RecordRow | ServiceError>,
): (readonly BatchItem[])[] {
  if (error instanceof RejectedItems) {
    for (const [index, refusal] of error.byIndex) outcomes.set(index, refusal);
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

/** Whether an error is the operation's own fault, rather than that of a database that is away. */
export function isRejection(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.status < 500;
}

async function tryBatch(app: App, caller: TenantCaller, entityName: string, run: Batch): Promise<RecordRow[]> {
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    const catalog = await catalogOf(app, caller.tenant);
    const entity = catalog.byName.get(entityName);
    if (entity === undefined) throw notFound('entity');
    try {
      return await applyBatch(autocommit(app, caller), catalog, accessScopeOf(catalog, caller, entity), run);
    } catch (error) {
      if (error instanceof StaleDefinition) forgetCatalog(app, caller.tenant);
      else if (!isDeadlock(error)) throw translateViolation(error, entity);
    }
  }
  throw conflict('the records keep being changed by others; try again');
}

async function createAll(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  items: readonly BatchItem[],
): Promise<RecordRow[]> {
  const { queries, caller, tx } = context;
  const { entity } = scope;
  const at = new Date().toISOString();
  const rows = await each(items, async ({ body }) => ({
    ...(await prepareCreate(context, catalog, scope, body)),
    created_at: at,
    updated_at: at,
  }));
  try {
    const targets = targetsOf(catalog, caller, entity, rows);
    const inserted = await insertRows(queries, entity, rows, causeOf(context), at, targets);
    if (inserted === rows.length) {
      if (tx === null) context.app.notifyCommitted(caller.tenant.id);
      return rows;
    }
  } catch (error) {
    // In a transaction nothing more can be asked after a failure.
    if (tx === null && isDuplicate(error)) refuse(items, await duplicatesAmong(queries, entity, rows));
    throw error;
  }
  return explain(context, catalog, scope, items, rows);
}

async function updateAll(
  context: InTransaction,
  catalog: Catalog,
  scope: AccessScope,
  items: readonly BatchItem[],
): Promise<RecordRow[]> {
  const { tx, caller } = context;
  const { entity } = scope;
  const found = await locked(tx, scope, items);
  const at = new Date().toISOString();
  const prepared = await each(items, async ({ id, body }) => {
    const before = found(id);
    const { row, changed } = await prepareUpdate(context, catalog, scope, before, body);
    return { before, row: { ...row, updated_at: at }, changed };
  });
  const values = prepared.map(({ changed }) => changed);
  const replaced = prepared.map(({ before, row }) => ({ ...row, version: before.version }));
  const targets = targetsOf(catalog, caller, entity, values);
  const updated = await updateRows(tx, entity, replaced, causeOf(context), at, targets);
  if (updated.size === items.length) return prepared.map(({ row }) => row);
  return explain(context, catalog, scope, items, values);
}

async function deleteAll(
  context: InTransaction,
  catalog: Catalog,
  scope: AccessScope,
  items: readonly BatchItem[],
): Promise<RecordRow[]> {
  const found = await locked(context.tx, scope, items);
  const rows = await each(items, ({ id }) => found(id));
  await deleteWithReferences(context, catalog, scope.entity, rows, causeOf(context));
  return rows;
}

/** Locks the rows of the items; a lookup that throws 404 for one that the caller does not see. */
async function locked(tx: Tx, scope: AccessScope, items: readonly BatchItem[]): Promise<(id: string) => RecordRow> {
  const ids = items.map(({ id }) => id.toLowerCase()).filter(isUuid);
  const rows = new Map((await lockRows(tx, scope, ids)).map((row) => [row.id, row]));
  return (id) => {
    const row = rows.get(id.toLowerCase());
    if (row === undefined) throw notFound('record');
    return row;
  };
}

/** Why a statement left its rows alone: relations that point at nothing, or else a definition that has moved. */
async function explain(
  { queries, caller }: WriteContext,
  catalog: Catalog,
  { entity }: AccessScope,
  items: readonly BatchItem[],
  values: readonly Named[],
): Promise<never> {
  const refusals = new Map<number, ServiceError>();
  for (const [i, named] of values.entries()) {
    const refusal = await missingTargets(queries, catalog, caller, entity, named);
    if (refusal !== undefined) refusals.set(i, refusal);
  }
  refuse(items, refusals);
  throw new StaleDefinition();
}

/** Does something for each item; throws the failures of all of them together. */
async function each<T>(items: readonly BatchItem[], work: (item: BatchItem) => T | Promise<T>): Promise<T[]> {
  const done: T[] = [];
  const refusals = new Map<number, ServiceError>();
  for (const [i, item] of items.entries()) {
    try {
      done.push(await work(item));
    } catch (error) {
      if (!isRejection(error)) throw error;
      refusals.set(i, error);
    }
  }
  refuse(items, refusals);
  return done;
}

/** Throws the refusals, given by position, under the items' indexes; returns when there are none. */
function refuse(items: readonly BatchItem[], byPosition: ReadonlyMap<number, ServiceError>): void {
  if (byPosition.size === 0) return;
  throw new RejectedItems(new Map([...byPosition].map(([i, error]) => [items[i]?.index ?? i, error])));
}
