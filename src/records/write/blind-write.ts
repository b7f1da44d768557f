// Blind writes: changes of one record in a single statement, without reading it first. They are possible when no rule
// acts, no row filter has to be checked on the after image, and the change does not depend on other stored values. If
// not, or if the statement matches no row, the caller reads the record to find out why (404, 412, 400, a changed
// definition).
import type { AccessScope } from '../../entities/access-scope.ts';
import type { Entity, Field } from '../../entities/field.ts';
import { specOf } from '../../entities/field-types.ts';
import { patternValues, withMatches } from '../../entities/patterns.ts';
import { searchVector } from '../../entities/search-vector.ts';
import { readPatch, type SlotValues, unwrap } from '../../entities/values.ts';
import type { Publication } from '../../events/publication.ts';
import { toSql } from '../../expression/to-sql.ts';
import { isUuid } from '../../runtime/ids.ts';
import { sql } from '../../runtime/sql.ts';
import type { JsonObject } from '../../runtime/text.ts';
import type { RecordRow } from '../row.ts';
import { deleteRow, patchRow, type RecordTarget, type RowPatch } from './statements.ts';
import { hasRules } from './triggers.ts';

/** Changes the fields in the body. Resolves to the after image, or undefined when the record must be read first. */
export async function blindUpdate(
  publication: Publication,
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
  return patchRow(publication, entity, target, patch, new Date().toISOString());
}

/** Deletes the record; false when it must be read first. */
export async function blindDelete(
  publication: Publication,
  { entity, rowFilter }: AccessScope,
  target: RecordTarget,
): Promise<boolean> {
  if (!isUuid(target.id) || entity.references.length > 0 || hasRules(entity, 'delete')) return false;
  return deleteRow(publication, entity, target, rowFilter && toSql(rowFilter, sql`r`));
}

/**
 * The patch, or undefined when it depends on stored values: during a transition of a field, for relations (an unchanged
 * one is not checked again), and for the search vector unless all or none of the searched fields are set.
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
