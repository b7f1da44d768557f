// Up to 1,000 creations, changes and deletions in one request: all or nothing, or each by itself. Consecutive operations of one
// kind form a batch.
// Failures: an atomic request fails with a 400 that names each failing operation, or a 412 when all of them lost a race.
// Contract: decisions#bulk.
import type { TenantCaller } from '../../access/caller.ts';
import { allows } from '../../access/rights.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeFor, accessScopeOf } from '../../entities/access-scope.ts';
import { type Catalog, catalogOf, catalogWithin, forgetCatalog } from '../../entities/catalog.ts';
import type { Entity } from '../../entities/field.ts';
import { noteLocks } from '../../entities/locks.ts';
import { conflict, forbidden, invalid, notFound, type Problem, ServiceError } from '../../errors.ts';
import { TooManyDeliveries } from '../../events/publication.ts';
import type { Envelope } from '../../http/reply.ts';
import { LIMITS } from '../../limits.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { PlaceNeeded, waitForPlace } from '../../runtime/large-calls.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import { isQuotaExceeded } from '../../usage/write-quotas.ts';
import { translateViolation } from '../write/constraints.ts';
import { inTransaction, MAX_ATTEMPTS, type OpenTransaction, type WriteContext } from '../write/context.ts';
import { applyBatch } from './batch.ts';
import type { BulkResponse, Operation } from './bulk-request.ts';
import { BulkResults } from './bulk-results.ts';
import { applyIndependently } from './independent.ts';
import {
  type Batch,
  type BatchKind,
  BatchTooLarge,
  isRejection,
  LostRace,
  RejectedItems,
  StaleDefinition,
} from './items.ts';
import { requireUniqueField } from './keys.ts';

/**
 * 403 when the caller may do none of the operations, whether or not the entity exists; 404 for an unknown entity. An upsert by
 * a field that is not unique is an invalid operation: 400 for a request that is all or nothing.
 */
export async function admitBulk(
  app: App,
  caller: TenantCaller,
  entityName: string,
  operations: readonly Operation[],
  isAtomic: boolean,
): Promise<void> {
  const isAllowed = (op: 'create' | 'update' | 'delete'): boolean => allows(caller.rights, op, entityName);
  if (!operations.some(({ op }) => (op === 'upsert' ? isAllowed('create') || isAllowed('update') : isAllowed(op)))) {
    throw forbidden(`no permission for these operations on ${entityName}`);
  }
  const scope = await accessScopeFor(app, caller, entityName);
  noteLocks(
    await catalogOf(app, caller.tenant),
    scope.entity,
    operations.some(({ op }) => op === 'delete'),
  );
  const problems: Problem[] = [];
  for (const operation of operations) {
    if (operation.op !== 'upsert' || operation.fault !== undefined) continue;
    const fault = faultOf(() => requireUniqueField(scope, operation.by, 'by'));
    if (fault === undefined) continue;
    operation.fault = fault;
    if (isAtomic)
      problems.push({ path: `operations.${operation.index}.by`, message: fault.details?.[0]?.message ?? '' });
  }
  if (problems.length > 0) throw invalid(problems.slice(0, LIMITS.problemsMax));
}

function faultOf(check: () => unknown): ServiceError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

/** Applies each operation by itself: a failure does not affect the others. */
export async function bulkEach(
  app: App,
  caller: TenantCaller,
  entityName: string,
  operations: readonly Operation[],
): Promise<Envelope<BulkResponse>> {
  const results = new BulkResults(operations.length);
  for (const { index, op, id, fault } of operations) if (fault !== undefined) results.failed({ index, op, id }, fault);
  const valid = operations.filter(({ fault }) => fault === undefined);
  for (const batch of batchesOf(valid, valid.length)) {
    const applied = await applyIndependently(app, caller, entityName, batch, results.of(batch.op));
    for (const item of batch.items) {
      await giveWay();
      const outcome = applied.get(item.index);
      if (outcome instanceof ServiceError) results.failed({ ...item, op: batch.op }, outcome);
    }
  }
  return results.response();
}

/**
 * Applies all operations in one transaction, or none: 400 with a problem for each operation that fails. `within` runs
 * an attempt and may supply the transaction for it. A batch whose error names no operation is repeated one operation at
 * a time.
 */
export async function bulkAtomic<T>(
  app: App,
  caller: TenantCaller,
  entityName: string,
  operations: readonly Operation[],
  within: (attempt: (context: WriteContext) => Promise<Envelope<BulkResponse>>) => Promise<T>,
): Promise<T> {
  let batchMax = operations.length;
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    try {
      return await within((context) =>
        inTransaction(context, (open) => applyAll(open, entityName, operations, batchMax)),
      );
    } catch (error) {
      if (error instanceof RejectedItems) throw rejectedRequest(error);
      if (error instanceof StaleDefinition) forgetCatalog(app, caller.tenant);
      else if (error instanceof PlaceNeeded) await waitForPlace();
      else if (error instanceof BatchTooLarge && batchMax > 1) batchMax = batchMax > LARGE_BATCH ? LARGE_BATCH : 1;
      else if (error instanceof UnattributedFailure && batchMax > 1) batchMax = 1;
      else if (!isDeadlock(error) && !(error instanceof LostRace)) throw error;
    }
  }
  throw conflict('concurrent modification; try again');
}

/** How many records of the largest size can be read together. */
const LARGE_BATCH = 3;

/** A batch failed, and the error names no operation. */
class UnattributedFailure extends Error {}

async function applyAll(
  open: OpenTransaction,
  entityName: string,
  operations: readonly Operation[],
  batchMax: number,
): Promise<Envelope<BulkResponse>> {
  const { app, caller, tx } = open;
  const catalog = await catalogWithin(app, tx, caller.tenant);
  const entity = catalog.byName.get(entityName);
  if (entity === undefined) throw notFound('entity');
  const scope = accessScopeOf(catalog, caller, entity);
  const results = new BulkResults();
  const rejected = new Map<number, ServiceError>();
  requireFewDeliveries(open, entity, operations);
  for (const batch of batchesOf(operations, batchMax)) {
    try {
      await applyAttributed(open, catalog, scope, batch, results);
    } catch (error) {
      // The other batches run too, so that the answer names their failures, unless the transaction has failed.
      if (!(error instanceof RejectedItems)) throw rejected.size > 0 ? new RejectedItems(rejected) : error;
      for (const [index, rejection] of error.byIndex) rejected.set(index, rejection);
      if (error.endsTransaction) break;
    }
  }
  if (rejected.size > 0) throw new RejectedItems(rejected);
  return results.response();
}

/** Refuses at once what a transaction would refuse after it has written most of it. */
function requireFewDeliveries(
  { publication }: OpenTransaction,
  entity: Entity,
  operations: readonly Operation[],
): void {
  for (const [op, { length }] of Map.groupBy(operations, ({ op }) => op)) {
    // Whether an upsert becomes a creation or an update is not known yet: its statement checks the limit.
    if (op === 'upsert') continue;
    publication.requireFewDeliveries({ entity, type: `record.${op}d` }, length);
  }
}

async function applyAttributed(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  batch: Batch,
  results: BulkResults,
): Promise<void> {
  try {
    await applyBatch(context, catalog, scope, batch, results.of(batch.op));
  } catch (raw) {
    const error = translateViolation(raw, scope.entity, context.caller);
    if (error instanceof TooManyDeliveries || !isRejection(error) || isQuotaExceeded(error)) throw error;
    const [only] = batch.items;
    if (batch.items.length > 1 || only === undefined) throw new UnattributedFailure();
    throw new RejectedItems(new Map([[only.index, error]]), true);
  }
}

/**
 * The error of an atomic request: `operations.<i>.data.<field>` for a value, `operations.<i>` for anything else. It is a 412
 * when every failed operation lost a race, else a 400.
 */
function rejectedRequest({ byIndex }: RejectedItems): ServiceError {
  const problems: Problem[] = [];
  const isLost = ({ ecode }: ServiceError): boolean => ecode === 'PRECONDITION_FAILED';
  for (const [index, error] of [...byIndex].sort(([a], [b]) => a - b)) {
    const at = `operations.${index}`;
    const isAboutValues = error.ecode === 'VALIDATION_ERROR' || error.ecode === 'CONFLICT';
    if (isLost(error)) problems.push({ path: at, message: error.message, code: error.ecode });
    else if (!isAboutValues || error.details === undefined) problems.push({ path: at, message: error.message });
    else for (const { path, message } of error.details) problems.push({ path: `${at}.data.${path}`, message });
  }
  if (![...byIndex.values()].every(isLost)) return invalid(problems);
  return new ServiceError('PRECONDITION_FAILED', 'records have changed since their etags were read', {
    details: problems.slice(0, LIMITS.problemsMax),
  });
}

/**
 * Batches of at most `max` consecutive operations of one kind. An id, or a value to upsert by, that repeats begins a new batch.
 */
function batchesOf(operations: readonly Operation[], max: number): Batch[] {
  const batches: (BatchKind & { items: Operation[] })[] = [];
  let keys = new Set<string>();
  for (const operation of operations) {
    const last = batches.at(-1);
    const key = keyOf(operation);
    if (last !== undefined && isOfKind(operation, last) && last.items.length < max && !keys.has(key)) {
      last.items.push(operation);
    } else {
      batches.push({ ...kindOf(operation), items: [operation] });
      keys = new Set();
    }
    if (operation.op !== 'create') keys.add(key);
  }
  return batches;
}

function keyOf({ op, by, id, body }: Operation): string {
  return op === 'upsert' ? (JSON.stringify(body[by]) ?? '') : id.toLowerCase();
}

function kindOf({ op, by }: Operation): BatchKind {
  return op === 'upsert' ? { op, by } : { op };
}

function isOfKind(operation: Operation, kind: BatchKind): boolean {
  return operation.op === kind.op && (kind.op !== 'upsert' || operation.by === kind.by);
}
