// Blind writes: change one record in a single statement, without reading it first. Concurrent blind writes of several records
// share a statement. A blind write is possible when no rule acts, no row filter has to be checked on the after image, and the
// change does not depend on other stored values. If it is not possible, or if the statement matches no row, the caller reads
// the record to find out why (404, 412, 400, a changed definition).
import type { AccessScope } from '../../entities/access-scope.ts';
import type { Entity, Field } from '../../entities/field.ts';
import { specOf } from '../../entities/field-types.ts';
import { patternValues, withMatches } from '../../entities/patterns.ts';
import { searchVector } from '../../entities/search-vector.ts';
import { readPatch, type SlotValues, unwrap } from '../../entities/values.ts';
import { toSql } from '../../expression/to-sql.ts';
import { isUuid } from '../../runtime/ids.ts';
import { SharedStatements } from '../../runtime/shared-statements.ts';
import { sql } from '../../runtime/sql.ts';
import { type JsonObject, jsonBytes } from '../../runtime/text.ts';
import type { RecordRow } from '../row.ts';
import { type BlindPatch, deleteUnread, patchRows, type RowPatch } from './blind-statements.ts';
import type { Writing } from './context.ts';
import { canShare, keyOfCause, WRITES_MAX } from './sharing.ts';
import type { RecordTarget } from './statements.ts';
import { hasRules } from './triggers.ts';

const patches = new SharedStatements<BlindPatch, RecordRow>({
  itemsMax: WRITES_MAX,
  bytesOf: ({ patch }) => jsonBytes(patch.set),
  idOf: ({ id }) => id,
});
const deletions = new SharedStatements<RecordTarget, true>({ itemsMax: WRITES_MAX, idOf: ({ id }) => id });

/** Changes the fields in the body. Resolves to the after image, or undefined when the record must be read first. */
export async function blindUpdate(
  writing: Writing,
  scope: AccessScope,
  target: RecordTarget,
  body: JsonObject,
): Promise<RecordRow | undefined> {
  const { entity, rowFilter, isVisible } = scope;
  if (!isUuid(target.id) || rowFilter !== null || hasRules(entity, 'update')) return undefined;
  const input = unwrap(scope, body);
  const read = () => readPatch(entity, input, isVisible);
  const { data, problems } = await withMatches(patternValues(entity, input), read);
  const patch = problems.length > 0 ? undefined : await rowPatch(entity, data);
  if (patch === undefined) return undefined;
  const { publication } = writing;
  const change = async (all: readonly BlindPatch[]) => {
    const changed = await patchRows(publication, entity, all);
    return all.map(({ id }) => changed.get(id));
  };
  const own = { id: target.id.toLowerCase(), versions: target.versions, patch, at: new Date().toISOString() };
  const isUnique = entity.fields.some(({ unique, slot }) => unique && data[slot] !== undefined);
  // Two statements that each change several unique values could wait for each other.
  if (isUnique || target.versions !== null || !canShare(writing, entity, 'record.updated'))
    return (await change([own]))[0];
  const key = `${keyOfCause(publication.cause)}${patch.searchVector === undefined ? '' : ' words'}`;
  return patches.run(entity, key, own, change);
}

/** Deletes the record; false when it must be read first. */
export async function blindDelete(writing: Writing, scope: AccessScope, target: RecordTarget): Promise<boolean> {
  const { entity, rowFilter } = scope;
  if (!isUuid(target.id) || entity.references.length > 0 || hasRules(entity, 'delete')) return false;
  const { publication } = writing;
  const remove = async (all: readonly RecordTarget[]) => {
    const deleted = await deleteUnread(publication, entity, all, rowFilter && toSql(rowFilter, sql`r`));
    return all.map(({ id }) => deleted.has(id) || undefined);
  };
  const own = { id: target.id.toLowerCase(), versions: target.versions };
  const isShared = rowFilter === null && target.versions === null && canShare(writing, entity, 'record.deleted');
  if (!isShared) return (await remove([own]))[0] === true;
  return (await deletions.run(entity, keyOfCause(publication.cause), own, remove)) === true;
}

/**
 * The patch, or undefined when it depends on stored values: during a transition of a field; for relations, since an unchanged
 * relation is not checked again; and for the search vector, unless the change sets all searched fields or none.
 */
async function rowPatch(entity: Entity, data: SlotValues): Promise<RowPatch | undefined> {
  if (entity.retiredSlots.length > 0) return undefined;
  const isSet = ({ slot }: Field): boolean => data[slot] !== undefined;
  if (entity.fields.some((field) => field.next !== undefined || (field.targetId !== null && isSet(field)))) {
    return undefined;
  }
  const searched = entity.fields.filter((field) => specOf(field).isSearchable);
  const setCount = searched.filter(isSet).length;
  if (setCount > 0 && setCount < searched.length) return undefined;
  const values: SlotValues = {};
  const cleared: string[] = [];
  for (const [slot, value] of Object.entries(data)) {
    if (value === null) cleared.push(slot);
    else values[slot] = value;
  }
  return { set: values, cleared, searchVector: setCount === 0 ? undefined : await searchVector(entity, values) };
}
