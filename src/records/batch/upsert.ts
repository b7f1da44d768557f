// Upserts: each changes the record that has its value of a unique field, or creates one. The outcome decides which right,
// checks, rules, event and history apply. A record that the caller cannot see is not found, so the creation fails as a plain
// creation does. For a caller that may not update, every record is found and refused with the same 403. A batch is one
// transaction: it locks the records of all its values by the unique index, changes them with one statement, and creates the
// others with another. The second statement waits for concurrent creations of the same values and skips them; the batch then
// starts over.
// Failures: 400, 403, 409 and 412 as for creations and changes. Contract: decisions#upsert.
import { requireOneRight, requireRight } from '../../access/caller.ts';
import { allows } from '../../access/rights.ts';
import type { AccessScope } from '../../entities/access-scope.ts';
import type { Catalog } from '../../entities/catalog.ts';
import type { Entity } from '../../entities/field.ts';
import { isSearchVectorUnchanged } from '../../entities/search-vector.ts';
import { unwrap } from '../../entities/values.ts';
import { conflict, invalidField, ServiceError } from '../../errors.ts';
import { rowsPerStatement } from '../../events/publication.ts';
import { lockRows } from '../read/read.ts';
import { RECORD_COLUMNS, type RecordRow, requireVersion } from '../row.ts';
import { duplicatesAmong, takenIds } from '../write/constraints.ts';
import { inTransaction, type WriteContext, type WritingInTransaction, writingWith } from '../write/context.ts';
import { prepareCreate, prepareUpdate } from '../write/prepare.ts';
import { targetsOf } from '../write/references.ts';
import { insertRows, updateRows } from '../write/statements.ts';
import { attempt, type Written } from '../write/write.ts';
import {
  type BatchItem,
  IdsOutOfOrder,
  LostRace,
  lockedBudget,
  type Outcome,
  type PreparedItem,
  prepareSome,
  RejectedItems,
  reject,
  rejectOrStale,
  resultsOf,
  StaleDefinition,
  type ToResult,
} from './items.ts';
import { pastOfIds } from './kept-ids.ts';
import { BY_ID, type Key, keyOfField, requireUniqueField } from './keys.ts';

/**
 * The rights of which a request to create records needs at least one. With `upsert` in its query, the right is checked per
 * record.
 */
export function rightToCreate(url: string): readonly ['create', ...'update'[]] {
  return /[?&]upsert=/.test(url) ? ['create', 'update'] : ['create'];
}

/** A written record, and whether it is new. */
export type Upserted = Written & { outcome: Outcome };

/** Changes the record with the body's value of the field `by`, or creates one. With `versions`, only changes. */
export async function upsertRecord(
  context: WriteContext,
  entityName: string,
  by: string,
  body: BatchItem['body'],
  versions: readonly number[] | null,
): Promise<Upserted> {
  requireOneRight(context.caller, ['create', 'update'], entityName);
  return attempt(context, entityName, 'upsert', async (writing, scope) => {
    const { tx } = writing;
    if (tx === null) throw new Error('an upsert runs in a transaction');
    const key = keyOfField(scope, requireUniqueField(scope, by, 'upsert'));
    const toResult: ToResult<Upserted> = (_, __, row, outcome) => ({ row, scope, outcome });
    try {
      const items = [{ index: 0, id: '', body, versions }];
      const [upserted = null] = await upsertSome({ ...writing, tx }, scope, key, items, toResult);
      return upserted;
    } catch (error) {
      if (error instanceof LostRace || error instanceof StaleDefinition) return null;
      throw error instanceof RejectedItems ? (error.byIndex.get(0) ?? error) : error;
    }
  });
}

function keyNamed(scope: AccessScope, by: string | null): Key {
  if (by === null) return NO_KEY;
  return by === 'id' ? BY_ID : keyOfField(scope, requireUniqueField(scope, by, 'upsert'));
}

/** The key of creations under given ids, which never find a record. */
const NO_KEY: Key = { ...BY_ID, ofItem: () => undefined };

/** Applies the first items of a batch; all of them when the context has a transaction. Without `by` it only creates records. */
export async function applyUpserts<T>(
  context: WriteContext,
  catalog: Catalog,
  scope: AccessScope,
  { by, items }: { by: string | null; items: readonly BatchItem[] },
  toResult: ToResult<T>,
): Promise<T[]> {
  const key = keyNamed(scope, by);
  return inTransaction(context, async (open) => {
    const writing = writingWith(open, catalog);
    const results: T[] = [];
    do {
      results.push(...(await upsertSome(writing, scope, key, items.slice(results.length), toResult)));
    } while (context.tx !== null && results.length < items.length);
    return results;
  });
}

/**
 * Upserts the first items, up to the first repeated value or id: an item that repeats one must find the record of the earlier
 * item.
 */
async function upsertSome<T>(
  writing: WritingInTransaction,
  scope: AccessScope,
  key: Key,
  given: readonly BatchItem[],
  toResult: ToResult<T>,
): Promise<T[]> {
  const { entity } = scope;
  const { items, values } = distinctItems(key, given);
  const found = await lockByValue(writing, scope, key, values);
  const before = (i: number): RecordRow | undefined => found.get(values[i] ?? '');
  writing.evaluator.expect(entity, ({ key, slot, default: standard }) =>
    items.map(({ body }, i) => unwrap(scope, body)[key] ?? (before(i) ? before(i)?.data[slot] : standard)),
  );
  const at = new Date().toISOString();
  const position = new Map(items.map((item, i) => [item, i]));
  const max = Math.min(
    rowsPerStatement({ entity, type: 'record.created' }),
    rowsPerStatement({ entity, type: 'record.updated' }),
  );
  const prepared = await prepareSome(scope, items, max, toResult, (item) =>
    prepareUpsert(writing, scope, key, { item, before: before(position.get(item) ?? -1), at }),
  );
  await write(writing, scope, key, { items, values, prepared, at });
  return resultsOf(prepared);
}

/** The first items whose values and ids are all different, with their values; undefined for an invalid value. */
function distinctItems(
  key: Key,
  given: readonly BatchItem[],
): { items: readonly BatchItem[]; values: (string | undefined)[] } {
  const values: (string | undefined)[] = [];
  const seen = new Set<string>();
  for (const item of given) {
    const value = key.ofItem(item);
    const names = [value === undefined ? [] : `value ${value}`, item.id === '' ? [] : `id ${item.id}`].flat();
    if (names.some((name) => seen.has(name))) break;
    for (const name of names) seen.add(name);
    values.push(value);
  }
  return { items: given.slice(0, values.length), values };
}

/**
 * Locks the records that have one of the values and that the caller can see; by value. For a caller that may not update, it
 * also locks records outside the caller's rows, so that each is refused with the same 403: a conflict instead would reveal a
 * hidden record.
 */
async function lockByValue(
  { tx, caller }: WritingInTransaction,
  scope: AccessScope,
  key: Key,
  values: readonly (string | undefined)[],
): Promise<Map<string, RecordRow>> {
  const wanted = values.filter((value) => value !== undefined);
  if (wanted.length === 0) return new Map();
  const reached = allows(caller.rights, 'update', scope.entity.name) ? scope : { ...scope, rowFilter: null };
  const rows = await lockRows(tx, reached, key.isAmong(wanted), RECORD_COLUMNS, lockedBudget(wanted.length));
  return new Map(rows.map((row) => [key.ofRow(row), row]));
}

async function prepareUpsert(
  writing: WritingInTransaction,
  scope: AccessScope,
  key: Key,
  { item, before, at }: { item: BatchItem; before: RecordRow | undefined; at: string },
): Promise<PreparedItem> {
  const { caller } = writing;
  const { entity } = scope;
  const { id, body, versions = null } = item;
  const isFound = key === NO_KEY || key === BY_ID || (unwrap(scope, body)[key.name] ?? null) !== null;
  if (!isFound) throw invalidField(key.name, 'is required: records are found by it');
  requireRight(caller, before === undefined ? 'create' : 'update', entity.name);
  if (before === undefined) {
    const row = await prepareCreate(writing, scope, body, id === '' ? undefined : id);
    if (versions !== null)
      throw new ServiceError('PRECONDITION_FAILED', `there is no record with this ${key.name} to change`);
    return { row, changed: row, outcome: 'created' };
  }
  requireVersion(before, versions, 'If-Match or its etag');
  if (id !== '' && id !== before.id) throw conflict(`the record with this ${key.name} has another id`);
  const { row, changed } = await prepareUpdate(writing, scope, before, body);
  const isUnchanged = isSearchVectorUnchanged(entity, before.data, row.data);
  const after = { ...row, updated_at: at, isSearchVectorUnchanged: isUnchanged };
  return { row: after, changed, outcome: 'updated' };
}

/** The prepared rows of the first items. */
interface Upserts {
  items: readonly BatchItem[];
  values: readonly (string | undefined)[];
  prepared: readonly PreparedItem[];
  at: string;
}

async function write(
  writing: WritingInTransaction,
  scope: AccessScope,
  key: Key,
  { items, values, prepared, at }: Upserts,
): Promise<void> {
  const { publication } = writing;
  const { entity } = scope;
  const all = prepared.map((upsert, i) => ({ ...upsert, item: items[i] as BatchItem, value: values[i] }));
  const [updates = [], creates = []] = (['updated', 'created'] as const).map((outcome) =>
    all.filter((upsert) => upsert.outcome === outcome),
  );
  const changes = updates.map(({ changed }) => changed);
  const rows = updates.map(({ row }) => row);
  const targets = targetsOf(writing, entity, changes);
  if (rows.length > 0 && (await updateRows(publication, entity, rows, at, targets)) < rows.length) {
    await rejectOrStale(writing, entity, itemsOf(updates), changes);
  }
  if (creates.length === 0) return;
  const bringsIds = creates.some(({ item }) => item.id !== '');
  if (bringsIds && entity.isInIdOrder && !publication.isDry) throw new IdsOutOfOrder();
  const news = await withPast(writing, entity, creates);
  const newTargets = targetsOf(writing, entity, news);
  const inserted = new Set(await insertRows(publication, entity, news, newTargets, { isLeftOutIfTaken: true }));
  const others = creates.filter(({ row }) => !inserted.has(row.id));
  if (others.length === 0) return;
  const racing = others.map(({ value }) => value);
  if ((await lockByValue(writing, scope, key, racing)).size > 0) throw new LostRace();
  const left = others.map(({ row }) => row);
  const taken = others.some(({ item }) => item.id !== '') ? await takenIds(writing, entity, left) : new Map();
  reject(itemsOf(others), new Map([...(await duplicatesAmong(writing, entity, left)), ...taken]));
  await rejectOrStale(writing, entity, itemsOf(others), left);
}

/** The rows to create. A row whose id a deleted record had continues its version numbers. */
async function withPast(
  writing: WritingInTransaction,
  entity: Entity,
  creates: readonly { row: PreparedItem['row']; item: BatchItem }[],
): Promise<PreparedItem['row'][]> {
  const kept = creates.filter(({ item }) => item.id !== '');
  if (kept.length === 0) return creates.map(({ row }) => row);
  const stored = await takenIds(
    writing,
    entity,
    kept.map(({ row }) => row),
  );
  // The insert skips rows whose id or value is already stored.
  const free = kept.filter((_, i) => !stored.has(i)).map(({ row }) => row.id);
  const past = free.length === 0 ? new Map() : await pastOfIds(writing, entity, free);
  const refused = kept.flatMap(({ row }, i) =>
    past.get(row.id)?.refusal ? [[i, past.get(row.id)?.refusal] as const] : [],
  );
  reject(itemsOf(kept), new Map(refused as [number, ServiceError][]));
  return creates.map(({ row }) => ({ ...row, version: (past.get(row.id)?.version ?? 0) + 1 }));
}

function itemsOf(upserts: readonly { item: BatchItem }[]): BatchItem[] {
  return upserts.map(({ item }) => item);
}
