// Batches in which each operation succeeds or fails by itself, for imports and for bulk requests that are not atomic. A batch
// that fails is repeated without the operations at fault; while those are unknown, it is repeated in halves.
// Contract: decisions#bulk, decisions#import.
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { accessScopeOf } from '../../entities/access-scope.ts';
import { catalogOf, forgetCatalog } from '../../entities/catalog.ts';
import { leaveIdOrder } from '../../entities/id-order.ts';
import { noteLocks } from '../../entities/locks.ts';
import { conflict, notFound, type ServiceError } from '../../errors.ts';
import { PlaceNeeded, waitForPlace } from '../../runtime/large-calls.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import { isQuotaExceeded, roomLeft } from '../../usage/write-quotas.ts';
import { translateViolation } from '../write/constraints.ts';
import { autocommit, MAX_ATTEMPTS, type Turn } from '../write/context.ts';
import { applyBatch } from './batch.ts';
import {
  type Batch,
  type BatchItem,
  type BatchKind,
  BatchTooLarge,
  IdsOutOfOrder,
  isRejection,
  LostRace,
  RejectedItems,
  StaleDefinition,
  type ToResult,
} from './items.ts';

/** Applies the operations that can succeed, each once `turn` resolves. Resolves to the result or error of each, by index. */
export async function applyIndependently<T>(
  app: App,
  caller: TenantCaller,
  entityName: string,
  { items, ...kind }: Batch,
  toResult: ToResult<T>,
  turn?: Turn,
): Promise<Map<number, T | ServiceError>> {
  const outcomes = new Map<number, T | ServiceError>();
  const pending = [items];
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    if (part.length === 0) continue;
    try {
      const results = await tryBatch(app, caller, entityName, { ...kind, items: part }, toResult, turn);
      results.forEach((result, i) => void outcomes.set((part as BatchItem[])[i]?.index ?? 0, result));
      pending.push(part.slice(results.length));
    } catch (error) {
      pending.push(...partsToRetry(kind, part, error, outcomes));
      // A full quota would refuse all later items too.
      if (part.length === 1 && isQuotaExceeded(error) && !isOfCreations(kind, error))
        refuseAll(pending.splice(0), error, outcomes);
    }
  }
  return outcomes;
}

/** Records the failures. Returns what to try next: the other items, or halves while the failing item is unknown. */
function partsToRetry<T>(
  kind: BatchKind,
  items: readonly BatchItem[],
  error: unknown,
  outcomes: Map<number, T | ServiceError>,
): (readonly BatchItem[])[] {
  if (error instanceof RejectedItems) {
    for (const [index, rejection] of error.byIndex) outcomes.set(index, rejection);
    return [items.filter(({ index }) => !error.byIndex.has(index))];
  }
  if (!isRejection(error) && !(error instanceof BatchTooLarge)) throw error;
  const room = isOfCreations(kind, error) ? undefined : roomLeft(error);
  if (room !== undefined && room < items.length) {
    refuseAll([items.slice(room)], error, outcomes);
    return [items.slice(0, room)];
  }
  const [only] = items;
  if (items.length === 1 && only !== undefined) {
    outcomes.set(only.index, error);
    return [];
  }
  const half = items.length >> 1;
  return [items.slice(half), items.slice(0, half)];
}

/**
 * Whether the quota refuses only the creations among the items: the quota of sizes, for upserts, does not refuse their updates.
 */
function isOfCreations({ op }: BatchKind, error: unknown): boolean {
  return op === 'upsert' && isQuotaExceeded(error) && error.status === 403;
}

function refuseAll<T>(
  parts: readonly (readonly BatchItem[])[],
  error: ServiceError,
  outcomes: Map<number, T | ServiceError>,
): void {
  for (const { index } of parts.flat()) outcomes.set(index, error);
}

async function tryBatch<T>(
  app: App,
  caller: TenantCaller,
  entityName: string,
  batch: Batch,
  toResult: ToResult<T>,
  turn: Turn | undefined,
): Promise<T[]> {
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    const catalog = await catalogOf(app, caller.tenant);
    const entity = catalog.byName.get(entityName);
    if (entity === undefined) throw notFound('entity');
    noteLocks(catalog, entity, batch.op === 'delete');
    try {
      return await applyBatch(
        autocommit(app, caller, turn),
        catalog,
        accessScopeOf(catalog, caller, entity),
        batch,
        toResult,
      );
    } catch (error) {
      if (error instanceof StaleDefinition) forgetCatalog(app, caller.tenant);
      else if (error instanceof IdsOutOfOrder) await leaveIdOrder(app, caller.tenant, entity);
      else if (error instanceof PlaceNeeded) await waitForPlace();
      else if (!isDeadlock(error) && !(error instanceof LostRace)) throw translateViolation(error, entity, caller);
    }
  }
  throw conflict('concurrent modification; try again');
}
