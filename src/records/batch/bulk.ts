// Up to 1,000 creations, changes and deletions in one request: all or nothing, or each for itself. Consecutive
// operations of one kind are one statement.
// Contract: decisions#bulk.

import type { TenantCaller } from '../../access/caller.ts';
import { allows } from '../../access/rights.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeOf } from '../../entities/access-scope.ts';
import { type Catalog, catalogOf, catalogWithin, entityFor, forgetCatalog } from '../../entities/catalog.ts';
import { conflict, forbidden, invalid, notFound, type Problem, ServiceError } from '../../errors.ts';
import { errorBody } from '../../http/reply.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import type { RecordRow } from '../row.ts';
import { shape } from '../shape.ts';
import { translateViolation } from '../write/constraints.ts';
import { inTransaction, MAX_ATTEMPTS, type WriteContext } from '../write/write.ts';
import { applyBatch, applyIndependently, type Batch, isRejection, RejectedItems, StaleDefinition } from './batch.ts';
import type { BulkAnswer, BulkResult, Operation } from './bulk-request.ts';

type Outcomes = ReadonlyMap<number, RecordRow | ServiceError>;

/** 404 for an unknown entity; 403 when the caller may do none of the operations. */
export async function admitBulk(
  app: App,
  caller: TenantCaller,
  entityName: string,
  operations: readonly Operation[],
): Promise<void> {
  await entityFor(app, caller, entityName);
  if (!operations.some(({ op }) => allows(caller.rights, op, entityName))) {
    throw forbidden(`no permission for these operations on ${entityName}`);
  }
}

/** Each operation for itself: one that fails leaves the others as they are. */
export async function bulkEach(
  app: App,
  caller: TenantCaller,
  entityName: string,
  operations: readonly Operation[],
): Promise<BulkAnswer> {
  const outcomes = new Map<number, RecordRow | ServiceError>();
  for (const { index, fault } of operations) if (fault !== undefined) outcomes.set(index, fault);
  const sound = operations.filter(({ fault }) => fault === undefined);
  for (const run of batchesOf(sound, sound.length)) {
    for (const [index, outcome] of await applyIndependently(app, caller, entityName, run)) outcomes.set(index, outcome);
  }
  return answer(accessScopeOf(...(await current(app, caller, entityName))), operations, outcomes);
}

/** Where `bulkAtomic` works: in a transaction that is open already, or in its own. It may be asked more than once. */
export type Within<T> = (work: (context: WriteContext) => Promise<BulkAnswer>) => Promise<T>;

/**
 * All operations in one transaction, or none: 400 with a problem for each operation at fault. First in
 * runs; when one fails as a whole, again one by one, so that the guilty operation is known.
 */
export async function bulkAtomic<T>(
  app: App,
  caller: TenantCaller,
  entityName: string,
  operations: readonly Operation[],
  within: Within<T>,
): Promise<T> {
  let runMax = operations.length;
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    try {
      return await within((context) =>
        inTransaction(context, (inner) => applyAll(inner, entityName, operations, runMax)),
      );
    } catch (error) {
      if (error instanceof RejectedItems) throw refusal(error);
      if (error instanceof StaleDefinition) forgetCatalog(app, caller.tenant);
      else if (error instanceof Unattributed && runMax > 1) runMax = 1;
      else if (!isDeadlock(error)) throw error;
    }
  }
  throw conflict('the records keep being changed by others; try again');
}

/** A run failed for a reason that does not say which of its operations is at fault. */
class Unattributed extends Error {}

async function applyAll(
  context: WriteContext,
  entityName: string,
  operations: readonly Operation[],
  runMax: number,
): Promise<BulkAnswer> {
  const { app, caller, tx } = context;
  const catalog = tx === null ? await catalogOf(app, caller.tenant) : await catalogWithin(app, tx, caller.tenant);
  const entity = catalog.byName.get(entityName);
  if (entity === undefined) throw notFound('entity');
  const scope = accessScopeOf(catalog, caller, entity);
  const outcomes = new Map<number, RecordRow>();
  const refused = new Map<number, ServiceError>();
  for (const run of batchesOf(operations, runMax)) {
    try {
      const rows = await applyAttributed(context, catalog, scope, run);
      run.items.forEach(({ index }, i) => void outcomes.set(index, rows[i] as RecordRow));
    } catch (error) {
      // The rest is tried all the same, so that its faults are named too; but not after Postgres itself refused.
      if (error instanceof RejectedItems) for (const [index, refusal] of error.byIndex) refused.set(index, refusal);
      if (!(error instanceof RejectedItems) || error.endsTransaction)
        throw refused.size > 0 ? new RejectedItems(refused) : error;
    }
  }
  if (refused.size > 0) throw new RejectedItems(refused);
  return answer(scope, operations, outcomes);
}

async function applyAttributed(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  run: Batch,
): Promise<RecordRow[]> {
  try {
    return await applyBatch(context, catalog, scope, run);
  } catch (raw) {
    const error = translateViolation(raw, scope.entity);
    if (!isRejection(error)) throw error;
    const [only] = run.items;
    if (run.items.length > 1 || only === undefined) throw new Unattributed();
    throw new RejectedItems(new Map([[only.index, error]]), true);
  }
}

/** The 400 of an atomic request: `operations.<i>.data.<field>` for a value, `operations.<i>` for anything else. */
function refusal({ byIndex }: RejectedItems): ServiceError {
  const problems: Problem[] = [];
  for (const [index, error] of [...byIndex].sort(([a], [b]) => a - b)) {
    const at = `operations.${index}`;
    const isAboutValues = error.ecode === 'VALIDATION_ERROR' || error.ecode === 'CONFLICT';
    if (!isAboutValues || error.details === undefined) problems.push({ path: at, message: error.message });
    else for (const { path, message } of error.details) problems.push({ path: `${at}.data.${path}`, message });
  }
  return invalid(problems);
}

async function current(app: App, caller: TenantCaller, entityName: string): Promise<Parameters<typeof accessScopeOf>> {
  const catalog = await catalogOf(app, caller.tenant);
  const entity = catalog.byName.get(entityName);
  if (entity === undefined) throw notFound('entity');
  return [catalog, caller, entity];
}

/** Consecutive operations of one kind, at most `max` together; a record that is named again begins a new run. */
function batchesOf(operations: readonly Operation[], max: number): Batch[] {
  const runs: { op: Operation['op']; items: Operation[] }[] = [];
  let ids = new Set<string>();
  for (const operation of operations) {
    const last = runs.at(-1);
    const id = operation.id.toLowerCase();
    const continues = last !== undefined && last.op === operation.op && last.items.length < max && !ids.has(id);
    if (continues) last.items.push(operation);
    else {
      runs.push({ op: operation.op, items: [operation] });
      ids = new Set();
    }
    if (operation.op !== 'create') ids.add(id);
  }
  return runs;
}

function answer(scope: AccessScope, operations: readonly Operation[], outcomes: Outcomes): BulkAnswer {
  const results = operations.map(({ index, op, id }): BulkResult => {
    const outcome = outcomes.get(index) as RecordRow | ServiceError;
    if (outcome instanceof ServiceError) {
      return { index, op, id: id === '' ? null : id, success: false, error: errorBody(outcome) };
    }
    const data = op === 'delete' ? {} : { data: shape(outcome, scope.entity, scope.fields) };
    return { index, op, id: outcome.id, success: true, ...data };
  });
  const succeeded = results.filter(({ success }) => success).length;
  return { results, succeeded, failed: results.length - succeeded };
}
