// Creating, changing and deleting one record: authorise; read and lock what decides about the change, unless a blind
// write will do; prepare; write by a statement that changes nothing when another write came first, and try again then.
// Contract: interface#records, decisions#records, decisions#concurrency, decisions#writes-within-a-role.
import { requireRight } from '../../access/caller.ts';
import { type AccessScope, accessScopeOf } from '../../entities/access-scope.ts';
import { type Catalog, catalogOf, catalogWithin, forgetCatalog } from '../../entities/catalog.ts';
import { isSearchVectorUnchanged } from '../../entities/search-vector.ts';
import { conflict, notFound, ServiceError } from '../../errors.ts';
import { isUuid } from '../../runtime/ids.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { findRow, lockRow } from '../read/find.ts';
import type { RecordRow } from '../row.ts';
import { blindDelete, blindUpdate, type RecordTarget } from './blind-write.ts';
import { translateViolation } from './constraints.ts';
import { inStatement, inTransaction, MAX_ATTEMPTS, type WriteContext, type Writing } from './context.ts';
import { prepareCreate, prepareUpdate } from './prepare.ts';
import { deleteWithReferences, requireTargets, targetsOf } from './references.ts';
import { deleteRows, insertRows, updateRows } from './statements.ts';
import { applyRules } from './triggers.ts';

/** A written record, and what of it the caller sees. */
export interface Written {
  row: RecordRow;
  scope: AccessScope;
}

/** Creates a record from a request's body. 400 with every problem, 403 outside the caller's rows, 409 on a duplicate. */
export async function createRecord(context: WriteContext, entityName: string, body: JsonObject): Promise<Written> {
  requireRight(context.caller, 'create', entityName);
  return attempt(context, entityName, 'create', async (writing, catalog, scope) => {
    const { caller, queries, publication } = writing;
    const { entity } = scope;
    const row = await prepareCreate(writing, catalog, scope, body);
    const targets = targetsOf(catalog, caller, entity, [row]);
    if ((await insertRows(publication, entity, [row], row.created_at, targets)) === 1) return { row, scope };
    await requireTargets(queries, catalog, caller, entity, row);
    return null;
  });
}

/** Changes only the fields in the body. 404 for a row the caller does not see, 412 when it is at none of `versions`. */
export async function updateRecord(
  context: WriteContext,
  entityName: string,
  id: string,
  body: JsonObject,
  versions: readonly number[] | null = null,
): Promise<Written> {
  requireRight(context.caller, 'update', entityName);
  return attempt(context, entityName, 'update', async (writing, catalog, scope) => {
    const { caller, queries, publication } = writing;
    const { entity } = scope;
    const patched = await blindUpdate(publication, scope, { id, versions }, body);
    if (patched !== undefined) return { row: patched, scope };
    const before = await readToWrite(writing, scope, { id, versions });
    const { row, changed } = await prepareUpdate(writing, catalog, scope, before, body);
    const targets = targetsOf(catalog, caller, entity, [changed]);
    const keepsVector = isSearchVectorUnchanged(entity, before.data, row.data);
    const replaced = { ...row, version: before.version, isSearchVectorUnchanged: keepsVector };
    if ((await updateRows(publication, entity, [replaced], row.updated_at, targets)).size === 1) return { row, scope };
    await requireTargets(queries, catalog, caller, entity, changed);
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
  await attempt(context, entityName, 'delete', async (writing, catalog, scope) => {
    const { entity } = scope;
    if (await blindDelete(writing.publication, scope, { id, versions })) return true;
    const found = await readToWrite(writing, scope, { id, versions });
    if (writing.tx !== null && entity.references.length > 0) {
      await deleteWithReferences({ ...writing, tx: writing.tx }, catalog, entity, [found]);
      return true;
    }
    const row = await applyRules(writing, catalog, entity, { operation: 'delete', before: found, after: found });
    return (await deleteRows(writing.publication, entity, [row])).size === 1 ? true : null;
  });
}

const EVENTS = { create: 'record.created', update: 'record.updated', delete: 'record.deleted' } as const;

/**
 * Runs a write until it matches: first without locks, since writers of one record seldom meet; then with the row locked,
 * so that any number of them progress. A write that fails with the row locked was made for an old definition.
 */
async function attempt<T>(
  context: WriteContext,
  entityName: string,
  operation: 'create' | 'update' | 'delete',
  write: (writing: Writing, catalog: Catalog, scope: AccessScope) => Promise<T | null>,
): Promise<T> {
  const { app, caller, tx } = context;
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    const catalog = await (tx === null ? catalogOf(app, caller.tenant) : catalogWithin(app, tx, caller.tenant));
    const entity = catalog.byName.get(entityName);
    if (entity === undefined) throw notFound('entity');
    const cascades = operation === 'delete' && entity.references.length > 0;
    const isLocked = tx !== null || cascades || (tries > 0 && operation !== 'create');
    const change = { entity, type: EVENTS[operation], isSingle: true };
    const writeOnce = (writing: Writing) => write(writing, catalog, accessScopeOf(catalog, caller, entity));
    try {
      const written = await (isLocked ? inTransaction(context, writeOnce) : inStatement(context, change, writeOnce));
      if (written !== null) return written;
      if (isLocked || operation === 'create') forgetCatalog(app, caller.tenant);
    } catch (error) {
      if (!isDeadlock(error) || tx !== null) throw translateViolation(error, entity);
    }
  }
  throw conflict('concurrent modification; try again');
}

/** The row as the caller may write it, locked in a transaction. */
async function readToWrite(
  { queries, tx }: Writing,
  scope: AccessScope,
  { id, versions }: RecordTarget,
): Promise<RecordRow> {
  if (!isUuid(id)) throw notFound('record');
  const row = tx === null ? await findRow(queries, scope, id) : await lockRow(tx, scope, id);
  if (row === undefined) throw notFound('record');
  if (versions !== null && !versions.includes(row.version)) {
    throw new ServiceError('PRECONDITION_FAILED', 'the record has changed since the version in If-Match');
  }
  return row;
}
