// The items of a batch: prepares each item, yields to other work in between, and collects the rejections. Few prepared rows are
// in memory at once, however much defaults and rules add to the request.
// Contract: decisions#bulk, decisions#import, neighbours#byte-budgets.
import type { AccessScope } from '../../entities/access-scope.ts';
import type { Entity } from '../../entities/field.ts';
import { type Problem, ServiceError } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { ByteBudget } from '../../runtime/byte-budget.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { type JsonObject, jsonBytes } from '../../runtime/text.ts';
import type { RecordRow } from '../row.ts';
import type { Writing } from '../write/context.ts';
import { type RelationValues, requireTargets } from '../write/references.ts';
import type { PreparedRow } from '../write/triggers.ts';

export type OperationKind = 'create' | 'update' | 'delete' | 'upsert';

/**
 * One operation; results and failures carry its `index`. The id is '' for a new record that gets one here; a deletion has an
 * empty body.
 */
export interface BatchItem {
  index: number;
  id: string;
  body: JsonObject;
  /** The versions that the record may have; null or absent accepts any. */
  versions?: readonly number[] | null;
}

/** The operation on each item. `by` is the key of the unique field by which an upsert finds its record, or `id`. */
export type BatchKind = { op: 'create' | 'update' | 'delete' } | { op: 'upsert'; by: string };

export type Batch = BatchKind & {
  /** No two items of an update or a deletion have the same id. */
  items: readonly BatchItem[];
};

export type Outcome = 'created' | 'updated' | 'deleted';

/** Makes an item's result from its row, before the row is written, or throws to reject the item. */
export type ToResult<T> = (scope: AccessScope, item: BatchItem, row: RecordRow, outcome: Outcome) => T;

/** The failed operations of a batch, by index. Nothing of the batch was applied. */
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

/**
 * The batch contains ids, but the entity still relies on its ids being in the order of creation. Nothing of the batch was
 * applied.
 */
export class IdsOutOfOrder extends Error {}

/** A record was created or changed while a batch was upserting it. Nothing of the batch was applied. */
export class LostRace extends Error {}

/** The rows of a batch have more bytes than may be read at once. Its transaction has failed; a smaller batch may succeed. */
export class BatchTooLarge extends ServiceError {
  constructor() {
    super(
      'SERVICE_UNAVAILABLE',
      'the records of this request are too large to be changed together; send fewer at once',
    );
  }
}

/** The budget for the rows that a batch of this many items locks; a single row may have any size. */
export function lockedBudget(items: number): ByteBudget {
  const max = items === 1 ? Number.MAX_SAFE_INTEGER : LIMITS.transfer.lockedBytesMax;
  return new ByteBudget(max, () => new BatchTooLarge());
}

/** Whether an error is the operation's own, rather than the service's. */
export function isRejection(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.status < 500 && error.ecode !== 'CLIENT_GONE';
}

/**
 * The error with only its first problems: a batch has many items, each of which may have as many and as long problems as a
 * single request has.
 */
function brief(error: ServiceError): ServiceError {
  const { ecode, message, details = [], headers, status } = error;
  let room: number = LIMITS.bulk.problemCharacters;
  const fitting = details.findIndex((problem) => {
    room -= problem.path.length + problem.message.length;
    return room < 0;
  });
  if (fitting < 0) return error;
  const shown = details.slice(0, Math.max(fitting, 1));
  const last = shown.pop() as Problem;
  const left = details.length - shown.length - 1;
  const kept = [...shown, left === 0 ? last : { ...last, message: `${last.message} (and ${left} more)` }];
  return new ServiceError(ecode, message, { details: kept, headers: { ...headers }, status, cause: error.cause });
}

/** A row to write. */
export interface PreparedItem {
  row: PreparedRow;
  /** The values to check: all values of a new record, only the changed ones of an update. */
  changed: RelationValues;
  outcome: Outcome;
}

export type Prepared<T> = PreparedItem & { result: T };

/** The results of prepared items. */
export function resultsOf<T>(prepared: readonly { result: T }[]): T[] {
  return prepared.map(({ result }) => result);
}

/**
 * Prepares the first items: at most `max`, and only as many as together have `LIMITS.transfer.batchBytesMax` bytes, including
 * defaults and values set by rules. After a rejection it prepares all items, so that it can throw all rejections together, and
 * keeps no row.
 */
export async function prepareSome<T>(
  scope: AccessScope,
  items: readonly BatchItem[],
  max: number,
  toResult: ToResult<T>,
  prepare: (item: BatchItem) => Promise<PreparedItem>,
): Promise<Prepared<T>[]> {
  const rejections = new Map<number, ServiceError>();
  const prepared: Prepared<T>[] = [];
  let size = 0;
  for (const [i, item] of items.entries()) {
    const way = giveWay();
    if (way !== undefined) await way;
    try {
      const { row, changed, outcome } = await prepare(item);
      const result = toResult(scope, item, row, outcome);
      if (rejections.size > 0) continue;
      prepared.push({ row, changed, outcome, result });
      size += jsonBytes(row.data);
      if (size >= LIMITS.transfer.batchBytesMax || prepared.length >= max) break;
    } catch (error) {
      if (!isRejection(error)) throw error;
      rejections.set(i, brief(error));
    }
  }
  reject(items, rejections);
  return prepared;
}

/** Runs `work` for each item; throws all rejections together. */
export async function forEachItem<T>(
  items: readonly BatchItem[],
  work: (item: BatchItem, i: number) => T | Promise<T>,
): Promise<T[]> {
  const done: T[] = [];
  const rejections = new Map<number, ServiceError>();
  for (const [i, item] of items.entries()) {
    await giveWay();
    try {
      done.push(await work(item, i));
    } catch (error) {
      if (!isRejection(error)) throw error;
      rejections.set(i, brief(error));
    }
  }
  reject(items, rejections);
  return done;
}

/** Throws the rejections, keyed by the items' indexes instead of their positions; returns when there are none. */
export function reject(items: readonly BatchItem[], byPosition: ReadonlyMap<number, ServiceError>): void {
  if (byPosition.size === 0) return;
  throw new RejectedItems(new Map([...byPosition].map(([i, error]) => [items[i]?.index ?? i, error])));
}

/** Throws the reason why a statement changed nothing: relations without a target, or else a changed definition. */
export async function rejectOrStale(
  writing: Writing,
  entity: Entity,
  items: readonly BatchItem[],
  values: readonly RelationValues[],
): Promise<never> {
  await forEachItem(items, (_, i) => requireTargets(writing, entity, values[i] as RelationValues));
  throw new StaleDefinition();
}
