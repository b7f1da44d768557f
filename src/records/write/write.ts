// Creating, changing and deleting one record: check the right; read the record, unless a blind write is possible;
// prepare the row; write it with one statement. The statement changes nothing if the record or the definition has
// changed since it was read; then the write is tried again.
// Contract: interface#records, decisions#records, decisions#concurrency, decisions#writes-within-a-role.
import { requireRight } from '../../access/caller.ts';
import { type AccessScope, accessScopeOf } from '../../entities/access-scope.ts';
import { catalogOf, catalogWithin, forgetCatalog } from '../../entities/catalog.ts';
import { noteLocks } from '../../entities/locks.ts';
import { isSearchVectorUnchanged } from '../../entities/search-vector.ts';
import { conflict, notFound } from '../../errors.ts';
import { isUuid } from '../../runtime/ids.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { areWritesLimited, isProbablyFar } from '../../usage/write-quotas.ts';
import { findRow, keepRow, lockRow } from '../read/read.ts';
import { type RecordRow, requireVersion } from '../row.ts';
import { blindDelete, blindUpdate } from './blind-write.ts';
import { translateViolation } from './constraints.ts';
import {
  inStatement,
  inTransaction,
  MAX_ATTEMPTS,
  type OpenWrite,
  type WriteContext,
  type Writing,
  writingWith,
} from './context.ts';
import { deleteWithReferences } from './deletion.ts';
import { insertTogether } from './insert-together.ts';
import { prepareCreate, prepareUpdate } from './prepare.ts';
import { requireTargets, targetsOf } from './references.ts';
import { deleteRows, type RecordTarget, updateRows } from './statements.ts';
import { applyRules } from './triggers.ts';

/** A written record, and the access scope of the caller. */
export interface Written {
  row: RecordRow;
  scope: AccessScope;
}

/**
 * Creates a record from a request's body. 400 with every problem, 403 outside the caller's rows, 409 on a duplicate.
 */
export async function createRecord(context: WriteContext, entityName: string, body: JsonObject): Promise<Written> {
  requireRight(context.caller, 'create', entityName);
  return attempt(context, entityName, 'create', async (writing, scope) => {
    const { entity } = scope;
    const row = await prepareCreate(writing, scope, body);
    const targets = targetsOf(writing, entity, [row]);
    if (await insertTogether(writing, entity, { row, targets })) return { row, scope };
    await requireTargets(writing, entity, row);
    return null;
  });
}

/**
 * Changes only the fields in the body. 404 for a row that the caller cannot see, 412 when its version is not in
 * `versions`.
 */
export async function updateRecord(
  context: WriteContext,
  entityName: string,
  id: string,
  body: JsonObject,
  versions: readonly number[] | null = null,
): Promise<Written> {
  requireRight(context.caller, 'update', entityName);
  return attempt(context, entityName, 'update', async (writing, scope) => {
    const { publication } = writing;
    const { entity } = scope;
    const patched = await blindUpdate(writing, scope, { id, versions }, body);
    if (patched !== undefined) return { row: patched, scope };
    const before = await readToWrite(writing, scope, { id, versions });
    const { row, changed } = await prepareUpdate(writing, scope, before, body);
    const after = { ...row, isSearchVectorUnchanged: isSearchVectorUnchanged(entity, before.data, row.data) };
    const targets = targetsOf(writing, entity, [changed]);
    if ((await updateRows(publication, entity, [after], row.updated_at, targets)) === 1) return { row, scope };
    await requireTargets(writing, entity, changed);
    return null;
  });
}

/** Deletes a record, and deletes or clears what refers to it. 404 and 412 as for a change, 409 under `restrict`. */
export async function deleteRecord(
  context: WriteContext,
  entityName: string,
  id: string,
  versions: readonly number[] | null = null,
): Promise<void> {
  requireRight(context.caller, 'delete', entityName);
  await attempt(context, entityName, 'delete', async (writing, scope) => {
    const { entity } = scope;
    if (await blindDelete(writing, scope, { id, versions })) return true;
    const found = await readToWrite(writing, scope, { id, versions });
    if (writing.tx !== null && entity.references.length > 0) {
      await deleteWithReferences({ ...writing, tx: writing.tx }, entity, [found]);
      return true;
    }
    const row = await applyRules(writing, entity, { operation: 'delete', before: found, after: found });
    return (await deleteRows(writing.publication, entity, [row])) === 1 || null;
  });
}

const EVENTS = {
  create: 'record.created',
  update: 'record.updated',
  delete: 'record.deleted',
  // A restore or an upsert may create or update: only its transaction knows.
  restore: 'record.updated',
  upsert: 'record.updated',
} as const;
const FINDS_OUT: ReadonlySet<keyof typeof EVENTS> = new Set(['restore', 'upsert']);

/**
 * Repeats a write until its statement matches a row; `write` resolves to null when it does not. The first attempt takes no
 * lock, since concurrent writes of one record are rare. The next attempts lock the row, so that each of many writers makes
 * progress. A statement that does not match a locked row was made for an old definition. A write close to a quota runs in a
 * transaction, which checks the quota. A restore and an upsert always run in a transaction.
 */
export async function attempt<T>(
  context: WriteContext,
  entityName: string,
  operation: keyof typeof EVENTS,
  write: (writing: Writing, scope: AccessScope) => Promise<T | null>,
): Promise<T> {
  const { app, caller, tx } = context;
  const isLimited = areWritesLimited(caller);
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    const catalog = await (tx === null ? catalogOf(app, caller.tenant) : catalogWithin(app, tx, caller.tenant));
    const entity = catalog.byName.get(entityName);
    if (entity === undefined) throw notFound('entity');
    noteLocks(catalog, entity, operation === 'delete');
    const cascades = operation === 'delete' && entity.references.length > 0;
    const isExact = isLimited && (tries > 0 || !isProbablyFar(app, caller.tenant));
    const isLocked =
      tx !== null || cascades || isExact || FINDS_OUT.has(operation) || (tries > 0 && operation !== 'create');
    const change = { entity, type: EVENTS[operation], isSingle: true };
    const writeOnce = (open: OpenWrite) => write(writingWith(open, catalog), accessScopeOf(catalog, caller, entity));
    try {
      const written = await (isLocked ? inTransaction(context, writeOnce) : inStatement(context, change, writeOnce));
      if (written !== null) return written;
      if (isLocked || (operation === 'create' && !isLimited)) forgetCatalog(app, caller.tenant);
    } catch (error) {
      if (!isDeadlock(error) || tx !== null) throw translateViolation(error, entity, caller);
    }
  }
  throw conflict('concurrent modification; try again');
}

/** Reads the record, and locks it in a transaction. 404, 412. */
async function readToWrite(
  { queries, tx }: Writing,
  scope: AccessScope,
  { id, versions }: RecordTarget,
): Promise<RecordRow> {
  if (!isUuid(id)) throw notFound('record');
  const row = tx === null ? await findRow(queries, scope, id) : await lockRow(tx, scope, id);
  if (row === undefined) throw notFound('record');
  requireVersion(row, versions, 'If-Match');
  if (tx === null) await keepRow(row);
  return row;
}
