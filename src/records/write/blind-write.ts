// Changes of one record made without reading it first, in a single statement: where no rule acts, no row
// filter asks what the record becomes, and nothing else that is stored decides over the change. A change
// that is none of these, or whose statement matches no row, is left to the caller, who reads the record
// and knows why (404, 412, 400, or a definition that has moved on).

import type { AccessScope } from '../../entities/access-scope.ts';
import type { Entity, Field } from '../../entities/field.ts';
import { specOf } from '../../entities/field-types.ts';
import { searchVector } from '../../entities/search-vector.ts';
import { readPatch, type SlotValues, unwrap } from '../../entities/values.ts';
import type { Cause } from '../../events/outbox.ts';
import { toSql } from '../../expression/to-sql.ts';
import { isUuid } from '../../runtime/ids.ts';
import { type Queries, sql } from '../../runtime/sql.ts';
import type { JsonObject } from '../../runtime/text.ts';
import type { RecordRow } from '../row.ts';
import { deleteRow, patchRow, type StoredPatch } from './statements.ts';
import { actsOn } from './triggers.ts';

/** The record that a request names, at any of these versions; null for whichever. */
interface Named {
  id: string;
  versions: readonly number[] | null;
}

const R = sql`r`;

/** Changes the fields in the body. The row as it now is, or undefined where it has to be read first. */
export async function blindUpdate(
  queries: Queries,
  { entity, rowFilter, sees }: AccessScope,
  named: Named,
  body: JsonObject,
  cause: Cause,
): Promise<RecordRow | undefined> {
  if (!isUuid(named.id) || rowFilter !== null || actsOn(entity, 'update')) return undefined;
  const { data, problems } = readPatch(entity, unwrap(entity, body), sees);
  const patch = problems.length > 0 ? undefined : storedPatch(entity, data);
  if (patch === undefined) return undefined;
  return patchRow(queries, entity, { ...named, rows: null }, patch, cause, new Date().toISOString());
}

/** Deletes the record; false where it has to be read first. */
export async function blindDelete(
  queries: Queries,
  { entity, rowFilter }: AccessScope,
  named: Named,
  cause: Cause,
): Promise<boolean> {
  if (!isUuid(named.id) || entity.references.length > 0 || actsOn(entity, 'delete')) return false;
  return deleteRow(queries, entity, { ...named, rows: rowFilter && toSql(rowFilter, R) }, cause);
}

/**
 * The patch, or undefined where the other values matter: while a field of the entity changes, for relations (one that
 * stays as it was is not checked again), and for words, unless all or none of the searched fields are in it.
 */
function storedPatch(entity: Entity, data: SlotValues): StoredPatch | undefined {
  if (entity.retiredSlots.length > 0) return undefined;
  const isSet = ({ slot }: Field): boolean => data[slot] !== undefined;
  if (entity.fields.some((field) => field.next !== undefined || (field.targetId !== null && isSet(field)))) {
    return undefined;
  }
  const searched = entity.fields.filter((field) => specOf(field).isSearchable);
  const set = searched.filter(isSet).length;
  if (set > 0 && set < searched.length) return undefined;
  const values: SlotValues = {};
  const cleared: string[] = [];
  for (const [slot, value] of Object.entries(data)) {
    if (value === null) cleared.push(slot);
    else values[slot] = value;
  }
  return { set: values, cleared, words: set === 0 ? undefined : searchVector(entity, values) };
}
