// Restores a version of a record, as a new change through the ordinary write path: rights, rules, row filter, If-Match, unique
// values, relations, quotas, events, deliveries. Fields that the caller may not see keep their values, or in a record that
// comes back their last ones. A record that comes back keeps its id and origin and continues with the next version. A lock per
// record keeps two requests from bringing it back at once, so that no version is used twice.
// Failures: 403, 404, 409 with everything in the way, 412, 400 of a rule.
// Contract: history#restore.
import { type Static, Type } from '@sinclair/typebox';
import { requireRight, type TenantCaller } from '../access/caller.ts';
import { allows } from '../access/rights.ts';
import { type AccessScope, accessScopeOf } from '../entities/access-scope.ts';
import type { Field } from '../entities/field.ts';
import type { SlotValues } from '../entities/values.ts';
import { notFound } from '../errors.ts';
import type { FeedEvent } from '../events/feed.ts';
import { check } from '../http/check.ts';
import { closed } from '../http/schemas.ts';
import { hasBeenErased, lockDeleted, requireNoErasure } from '../records/erase/erase.ts';
import { lockRow } from '../records/read/read.ts';
import { type RecordRow, requireVersion } from '../records/row.ts';
import type { WriteContext, WritingInTransaction } from '../records/write/context.ts';
import { OUTSIDE, prepareUpdate, requireOwnRows } from '../records/write/prepare.ts';
import { targetsOf } from '../records/write/references.ts';
import { insertRows, updateRows } from '../records/write/statements.ts';
import { applyRules, type PreparedRow } from '../records/write/triggers.ts';
import { attempt, type Written } from '../records/write/write.ts';
import { isUuid } from '../runtime/ids.ts';
import type { JsonObject } from '../runtime/text.ts';
import { requireNothingInTheWay } from './obstacles.ts';
import { recordOf } from './past.ts';
import { readVersionIn } from './versions.ts';

export const RestoreInput = closed({
  version: Type.Integer({
    minimum: 1,
    maximum: 2 ** 40,
    description: 'as the history shows it',
    error: 'must be a version, a whole number from 1 on',
    examples: [1],
  }),
});
export type RestoreInput = Static<typeof RestoreInput>;

interface Restore {
  writing: WritingInTransaction;
  scope: AccessScope;
  id: string;
  version: number;
  versions: readonly number[] | null;
}

/** 403 for a caller that may restore no record of the entity. */
export function requireRightToRestore(caller: TenantCaller, entityName: string): void {
  requireRight(caller, 'read', entityName);
  if (!allows(caller.rights, 'create', entityName)) requireRight(caller, 'update', entityName);
}

/** Gives a record the values of one of its versions; `versions` are the versions that `If-Match` accepts. */
export async function restoreRecord(
  context: WriteContext,
  entityName: string,
  id: string,
  input: RestoreInput,
  versions: readonly number[] | null = null,
): Promise<Written> {
  requireRightToRestore(context.caller, entityName);
  const { version } = check(RestoreInput, input);
  if (!isUuid(id)) throw notFound('record');
  return attempt(context, entityName, 'restore', async (writing, scope) => {
    const { tx } = writing;
    if (tx === null) throw new Error('a restore runs in a transaction');
    const restore = { writing: { ...writing, tx }, scope, id, version, versions };
    const row = await lockRow(tx, scope, id);
    return row === undefined ? bringBack(restore) : changeBack(restore, row);
  });
}

/** For an existing record: changes the fields that the caller sees and that differ. */
async function changeBack(restore: Restore, before: RecordRow): Promise<Written | null> {
  const { writing, scope, versions } = restore;
  const { entity } = scope;
  requireRight(writing.caller, 'update', entity.name);
  requireVersion(before, versions, 'If-Match');
  const { data, at } = await imageOf(restore);
  const body: JsonObject = {};
  for (const field of scope.fields) {
    if (wasKnown(field, at) && !isSame(before.data[field.slot], data[field.slot])) {
      body[field.key] = data[field.slot] ?? null;
    }
  }
  await requireNothingInTheWay(writing, scope, { id: before.id, body, isNew: false });
  const { row, changed } = await prepareUpdate(writing, scope, before, body);
  const targets = targetsOf(writing, entity, [changed]);
  return (await updateRows(writing.publication, entity, [row], row.updated_at, targets)) === 1 ? { row, scope } : null;
}

/**
 * For a deleted record: brings it back with its last values, and with the version's values in the fields that the caller sees.
 */
async function bringBack(restore: Restore): Promise<Written | null> {
  const { writing, scope, id, versions } = restore;
  const { caller, tx } = writing;
  const { entity } = scope;
  await lockDeleted(tx, caller.tenant.id, id);
  // Somebody else may have brought it back while this one waited.
  if ((await lockRow(tx, scope, id)) !== undefined) return null;
  const last = await readVersionIn(tx, recordOf(writing.app, caller, scope, id), {});
  if (last?.type !== 'record.deleted' || last.row === null || !(await wasSeen(restore, last))) throw notFound('record');
  requireRight(caller, 'create', entity.name);
  if (last.erased !== undefined) throw hasBeenErased();
  await requireNoErasure(tx, entity.tenantId, id);
  requireVersion(last.row, versions, 'If-Match');
  const { data, at } = await imageOf(restore);
  const body: JsonObject = {};
  for (const field of entity.fields) {
    const { key, slot, required } = field;
    const value = scope.isVisible(field) && wasKnown(field, at) ? data[slot] : last.row.data[slot];
    // A field that is new gets its default.
    const isNew = !wasKnown(field, last.at) || (required && value === undefined);
    if (value !== undefined || !isNew) body[key] = value ?? null;
  }
  const values = await requireNothingInTheWay(writing, scope, { id: last.row.id, body, isNew: true });
  const after = { ...last.row, data: values, version: last.row.version + 1, updated_at: now(), updated_by: caller.id };
  const ruled = await applyRules(writing, entity, { operation: 'create', before: null, after });
  const row: PreparedRow = { ...ruled, setByRule: new Set([...(ruled.setByRule ?? []), ...hiddenSlots(scope)]) };
  await requireOwnRows(writing, scope, row, OUTSIDE);
  const targets = targetsOf(writing, entity, [row]);
  const ids = await insertRows(writing.publication, entity, [row], targets, { origin: row });
  return ids.length === 1 ? { row, scope } : null;
}

/** The values of the version, and its time. 404 when it is no longer kept, or was outside the caller's rows. */
async function imageOf(restore: Restore): Promise<{ data: SlotValues; at: string }> {
  const { writing, scope, id, version } = restore;
  const { app, caller, tx } = writing;
  const after = { version: version + 1, isDeletion: false };
  const event = await readVersionIn(tx, recordOf(app, caller, scope, id), { after });
  if (event?.row?.version !== version || !(await wasSeen(restore, event))) throw notFound('version');
  return { data: event.row.data, at: event.at };
}

/** Whether the event's image was among the caller's rows at its time. An erased image has no values left that show it. */
async function wasSeen({ writing, scope }: Restore, { row, at, erased }: FeedEvent): Promise<boolean> {
  const { catalog, caller, evaluator } = writing;
  const { rowFilter } = accessScopeOf(catalog, caller, scope.entity, new Date(at));
  if (erased !== undefined && rowFilter !== null) return false;
  return row !== null && (rowFilter === null || (await evaluator.met(scope.entity, rowFilter, row, at)));
}

/** Whether a version made at a time could have a value of the field. */
function wasKnown({ slotAt }: Field, at: string): boolean {
  return slotAt === null || Date.parse(slotAt) <= Date.parse(at);
}

function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** The slots of hidden fields. The caller has not chosen their values, so it need not see the records that they refer to. */
function hiddenSlots({ entity, isVisible }: AccessScope): string[] {
  return entity.fields.filter((field) => !isVisible(field)).map(({ slot }) => slot);
}

function now(): string {
  return new Date().toISOString();
}
