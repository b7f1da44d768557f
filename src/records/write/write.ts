// Creating, changing and deleting one record: authorise, then in one statement where nothing in what is
// stored decides over it; else read the record, check the caller's rows and the rules, and write by a
// statement that fails to match when anything moved meanwhile, and is then done again.
// Contract: interface#records, decisions#records, decisions#writes-within-a-role.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeOf } from '../../entities/access-scope.ts';
import { type Catalog, catalogOf, catalogWithin, forgetCatalog } from '../../entities/catalog.ts';
import { isSearchVectorUnchanged } from '../../entities/search-vector.ts';
import { applyPatch, IS_REQUIRED, readNew, readPatch, type SlotValues, unwrap } from '../../entities/values.ts';
import { conflict, forbidden, invalid, notFound, type Problem, ServiceError } from '../../errors.ts';
import { followOf } from '../../events/hub.ts';
import type { Cause } from '../../events/outbox.ts';
import { isUuid, newId } from '../../runtime/ids.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import type { Queries, Tx } from '../../runtime/sql.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { findRow, lockRow, meets } from '../read/find.ts';
import type { RecordRow } from '../row.ts';
import { blindDelete, blindUpdate } from './blind-write.ts';
import { translateViolation } from './constraints.ts';
import { type Places, takePlaces } from './inline-delivery.ts';
import { deleteWithReferences, missingTargets, type Named, targetsOf } from './references.ts';
import { deleteRows, insertRow, updateRows } from './statements.ts';
import { applyRules, type PreparedRow } from './triggers.ts';

/** What a write gives back: the row as it now is, for the caller's eyes. */
export interface Written {
  row: RecordRow;
  scope: AccessScope;
}

/** Where a write runs and as whom. In a transaction rows are locked, so nothing moves under it. */
export interface WriteContext {
  app: App;
  caller: TenantCaller;
  queries: Queries;
  /** Set inside a transaction. */
  tx: Tx | null;
  /** See Cause; never set inside a transaction. */
  tell?: Cause['tell'];
}

/** Tries before a write that keeps losing to others gives up with 409. */
export const MAX_ATTEMPTS = 8;

export function causeOf({ caller, tell }: Pick<WriteContext, 'caller' | 'tell'>): Cause {
  const { tenant, id, triggeredBy, chain } = caller;
  const depth = chain === undefined ? 0 : chain.depth + 1;
  return { tenantId: tenant.id, actor: id, triggeredBy, depth, rootEventId: chain?.rootEventId ?? null, tell };
}

/**
 * A new record as it is to be stored, after the rules. 400 with every problem, or where a rule rejects it; 403 outside
 * the caller's rows. What is required may come from a rule.
 */
export async function prepareCreate(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  body: JsonObject,
): Promise<PreparedRow> {
  const { entity } = scope;
  const { data, problems } = readNew(entity, unwrap(entity, body), scope.sees);
  if (entity.rules.length === 0 || problems.some(({ message }) => message !== IS_REQUIRED)) throwProblems(problems);
  const change = { moment: 'create', old: null, row: newRow(context.caller, data) } as const;
  const row = await applyRules(context, catalog, entity, change);
  throwProblems(problems.filter(({ path }) => row.data[entity.byKey.get(path)?.slot ?? ''] === undefined));
  await requireOwnRows(context.queries, catalog, scope, row, 'a record outside of your rows cannot be created');
  return row;
}

/** A record as it is to be after a change and the rules, and the values that are new in it. 400, 403 as for a new one. */
export async function prepareUpdate(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  before: RecordRow,
  body: JsonObject,
): Promise<{ row: PreparedRow; changed: Named }> {
  const { data: patch, problems } = readPatch(scope.entity, unwrap(scope.entity, body), scope.sees);
  throwProblems(problems);
  const asked: RecordRow = {
    ...before,
    data: applyPatch(before.data, patch),
    version: before.version + 1,
    updated_at: new Date().toISOString(),
    updated_by: context.caller.id,
  };
  const row = await applyRules(context, catalog, scope.entity, { moment: 'update', old: before, row: asked });
  await requireOwnRows(context.queries, catalog, scope, row, 'a record cannot be moved out of your rows');
  return { row, changed: { ...row, data: changedOnly(before.data, row.data) } };
}

function throwFound(error: ServiceError | undefined): void {
  if (error !== undefined) throw error;
}

/** Creates a record from a request's body. 400 with every problem, 403 outside the caller's rows, 409 on a duplicate. */
export async function createRecord(context: WriteContext, entityName: string, body: JsonObject): Promise<Written> {
  return attempt(context, entityName, 'create', async (inner, catalog, scope, places) => {
    const { queries, caller } = inner;
    const { entity } = scope;
    const row = await prepareCreate(inner, catalog, scope, body);
    const targets = targetsOf(catalog, caller, entity, [row]);
    if (await insertRow(queries, entity, row, causeOf(inner), row.created_at, targets, places)) return { row, scope };
    throwFound(await missingTargets(queries, catalog, caller, entity, row));
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
  return attempt(context, entityName, 'update', async (inner, catalog, scope) => {
    const { queries, caller } = inner;
    const { entity } = scope;
    const unseen = await blindUpdate(queries, scope, { id, versions }, body, causeOf(inner));
    if (unseen !== undefined) return { row: unseen, scope };
    const before = await rowToWrite(inner, scope, id, versions);
    const { row, changed } = await prepareUpdate(inner, catalog, scope, before, body);
    const targets = targetsOf(catalog, caller, entity, [changed]);
    const replaced = {
      ...row,
      version: before.version,
      isSearchVectorUnchanged: isSearchVectorUnchanged(entity, before.data, row.data),
    };
    const updated = await updateRows(queries, entity, [replaced], causeOf(inner), row.updated_at, targets);
    if (updated.size === 1) return { row, scope };
    throwFound(await missingTargets(queries, catalog, caller, entity, changed));
    return null;
  });
}

/** Deletes a record and settles what refers to it. 404, 409 or 412 as for a change. */
export async function deleteRecord(
  context: WriteContext,
  entityName: string,
  id: string,
  versions: readonly number[] | null = null,
): Promise<void> {
  await attempt(context, entityName, 'delete', async (outer, catalog, scope) => {
    const { entity } = scope;
    if (await blindDelete(outer.queries, scope, { id, versions }, causeOf(outer))) return true;
    if (entity.references.length > 0) {
      await inTransaction(outer, async (inner) => {
        const row = await rowToWrite(inner, scope, id, versions);
        await deleteWithReferences(inner, catalog, entity, [row], causeOf(inner));
      });
      return true;
    }
    const found = await rowToWrite(outer, scope, id, versions);
    const row = await applyRules(outer, catalog, entity, { moment: 'delete', old: found, row: found });
    const deleted = await deleteRows(outer.queries, entity, [row], causeOf(outer));
    return deleted.size === 1 ? true : null;
  });
}

/** A context whose queries are one transaction: the given one's, or a new one. */
export async function inTransaction<T>(
  context: WriteContext,
  work: (inner: WriteContext & { tx: Tx }) => Promise<T>,
): Promise<T> {
  const { tx } = context;
  if (tx !== null) return work({ ...context, tx });
  const done = await context.app.db.begin((opened) =>
    work({ ...context, queries: opened, tx: opened, tell: undefined }),
  );
  context.app.notifyCommitted(context.caller.tenant.id);
  return done;
}

const EVENTS = { create: 'record.created', update: 'record.updated', delete: 'record.deleted' } as const;

type Attempt<T> = (context: WriteContext, catalog: Catalog, scope: AccessScope, places?: Places) => Promise<T | null>;

/**
 * Runs a write until it matches: first without a lock, since writers of one record seldom meet; then with the row locked,
 * so that each of any number of them gets its turn. What fails with the row locked was made for an old definition.
 */
async function attempt<T>(
  context: WriteContext,
  entityName: string,
  operation: 'create' | 'update' | 'delete',
  write: Attempt<T>,
): Promise<T> {
  const { app, caller, tx } = context;
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    const catalog = await (tx === null ? catalogOf(app, caller.tenant) : catalogWithin(app, tx, caller.tenant));
    requireRight(caller, operation, entityName);
    const entity = catalog.byName.get(entityName);
    if (entity === undefined) throw notFound('entity');
    const isLocked = tx !== null || (tries > 0 && operation !== 'create');
    // Of another record's change nobody knows here whether something of its own is before it.
    const places =
      operation === 'create' && tx === null ? takePlaces(app, caller.tenant.id, entity, 'record.created') : undefined;
    const follow = isLocked ? undefined : followOf(app, caller.tenant.id, entityName);
    const once = (inner: WriteContext) => write(inner, catalog, accessScopeOf(catalog, caller, entity), places);
    try {
      const written = await (isLocked ? inTransaction(context, once) : once({ ...context, tell: follow?.tell }));
      if (written !== null) {
        const change = { entityId: entity.id, type: EVENTS[operation], isRelayed: follow?.isRelayed };
        // Places that were settled have seen to the deliveries.
        if (tx === null) app.notifyCommitted(places === undefined ? caller.tenant.id : undefined, change);
        return written;
      }
      if (isLocked || operation === 'create') forgetCatalog(app, caller.tenant);
    } catch (error) {
      if (!isDeadlock(error) || tx !== null) throw translateViolation(error, entity);
    } finally {
      places?.giveBack();
    }
  }
  throw conflict('the record keeps being changed by others; try again');
}

/** The row as the caller may write it, locked when in a transaction. */
async function rowToWrite(
  { queries, tx }: WriteContext,
  scope: AccessScope,
  id: string,
  versions: readonly number[] | null,
): Promise<RecordRow> {
  if (!isUuid(id)) throw notFound('record');
  const row = tx === null ? await findRow(queries, scope, id) : await lockRow(tx, scope, id);
  if (row === undefined) throw notFound('record');
  if (versions !== null && !versions.includes(row.version)) {
    throw new ServiceError('PRECONDITION_FAILED', 'the record has changed since the version in If-Match');
  }
  return row;
}

async function requireOwnRows(
  queries: Queries,
  catalog: Catalog,
  scope: AccessScope,
  row: RecordRow,
  refusal: string,
): Promise<void> {
  if (scope.rowFilter !== null && !(await meets(queries, catalog, scope.entity, scope.rowFilter, row)))
    throw forbidden(refusal);
}

export function newRow(caller: TenantCaller, data: SlotValues): RecordRow {
  const at = new Date().toISOString();
  return {
    id: newId(),
    version: 1,
    data,
    created_at: at,
    updated_at: at,
    created_by: caller.id,
    updated_by: caller.id,
  };
}

/** The values that are set anew; a relation that stays as it was is not checked again. */
function changedOnly(before: SlotValues, after: SlotValues): SlotValues {
  const changed: SlotValues = {};
  for (const [slot, value] of Object.entries(after)) {
    if (value !== before[slot] && JSON.stringify(value) !== JSON.stringify(before[slot])) changed[slot] = value;
  }
  return changed;
}

function throwProblems(problems: readonly Problem[]): void {
  if (problems.length > 0) throw invalid(problems);
}

/** The context of a plain request: statements of their own, no transaction. */
export function autocommit(app: App, caller: TenantCaller): WriteContext {
  return { app, caller, queries: app.db, tx: null };
}
