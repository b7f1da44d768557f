// The statements of blind writes, for one record or for several that share a statement. A shared statement skips records that
// another transaction has locked, because waiting for them would delay all the others; a blind write of one record waits. The
// caller finds out why a record was skipped.
import type { Entity } from '../../entities/field.ts';
import type { SlotValues } from '../../entities/values.ts';
import { FORMER_VALUES } from '../../events/before-image.ts';
import type { Publication } from '../../events/publication.ts';
import { LIMITS } from '../../limits.ts';
import { EMPTY, inputRows, raw, type Sql, sql } from '../../runtime/sql.ts';
import { jsonTextBytes } from '../../runtime/text.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';
import { withNewEventIds } from './side-effects.ts';
import { apply, isCurrent, isOneOf, type RecordTarget, touched } from './statements.ts';

/** Values to set and slots to clear; other slots keep their values. */
export interface RowPatch {
  set: SlotValues;
  cleared: readonly string[];
  /** The new search vector; null for an empty one, undefined when it does not change. */
  searchVector: string | null | undefined;
}

/** A patch of one record, and when it was made. */
export interface BlindPatch extends RecordTarget {
  patch: RowPatch;
  at: string;
}

/**
 * Changes records without reading them; either all of them or none get a new search vector. Resolves to the after images, by
 * id. Records are skipped that do not match, that were changed meanwhile, or that might become larger than the limit. `b` is
 * the record as the statement found it, without a lock: `bytes_before` is the size of the version that is changed.
 */
export async function patchRows(
  publication: Publication,
  entity: Entity,
  patches: readonly BlindPatch[],
): Promise<Map<string, RecordRow>> {
  const rowsWithIds = withNewEventIds(patches);
  const hasWords = patches.some(({ patch }) => patch.searchVector !== undefined);
  const isClearing = patches.some(({ patch }) => patch.cleared.length > 0);
  const input = rowsWithIds.map(({ id, patch, at, eventId }) => {
    const cleared = isClearing ? [`{${patch.cleared.join()}}`] : [];
    const json = JSON.stringify(patch.set);
    const values = [id, json, jsonTextBytes(json, patch.set), at, eventId];
    return [...values, ...cleared, ...(hasWords ? [patch.searchVector ?? null] : [])];
  });
  const types = [
    'uuid',
    'text',
    'int',
    'timestamptz',
    'uuid',
    ...(isClearing ? ['text'] : []),
    ...(hasWords ? ['text'] : []),
  ];
  const columns = sql`id, json, bytes, at, event_id${isClearing ? sql`, cleared` : EMPTY}${hasWords ? sql`, words` : EMPTY}`;
  const bytesBefore = sql`octet_length(b.data::text)`;
  const ctes = sql`
    with input (${columns}) as (${inputRows(types, input)}), ${unlocked(entity, patches, 'no key update')}
    changed as (
      update ${entity.table} as r
      set data = (r.data || i.json::jsonb)${isClearing ? sql` - i.cleared::text[]` : EMPTY},
        ${hasWords ? sql`search_vector = i.words::tsvector,` : EMPTY}
        ${touched(publication, sql`i.at`)}
      from input as i
      join ${patches.length === 1 ? entity.table : sql`unlocked`} as b on b.id = i.id
      where r.id = i.id and b.version = r.version${versionsOf(patches)} and ${isCurrent(entity)} and ${publication.room}
        and ${bytesBefore} + i.bytes <= ${LIMITS.recordBytesMax}::int
      returning ${RECORD_COLUMNS}, ${bytesBefore} as bytes_before, ${FORMER_VALUES} as old
    )`;
  const changed = await apply(publication, entity, 'record.updated', rowsWithIds, ctes, RECORD_COLUMNS);
  return new Map(changed.map((row) => [row.id, row]));
}

/** Deletes records without reading them, if they meet `rowFilter`, a condition on `r`. Resolves to the ids of those deleted. */
export async function deleteUnread(
  publication: Publication,
  entity: Entity,
  targets: readonly RecordTarget[],
  rowFilter: Sql | null,
): Promise<Set<string>> {
  const rowsWithIds = withNewEventIds(targets);
  const input = rowsWithIds.map(({ id, eventId }) => [id, eventId]);
  const ctes = sql`
    with input (id, event_id) as (${inputRows(['uuid', 'uuid'], input)}), ${unlocked(entity, targets, 'update')}
    changed as (
      delete from ${entity.table} as r
      using input as i${targets.length === 1 ? EMPTY : sql` join unlocked as b on b.id = i.id`}
      where r.id = i.id${versionsOf(targets)} and ${rowFilter === null ? EMPTY : sql`${rowFilter} and `}${isCurrent(entity)}
      returning ${RECORD_COLUMNS}
    )`;
  const deleted = await apply(publication, entity, 'record.deleted', rowsWithIds, ctes);
  return new Set(deleted.map(({ id }) => id));
}

/** For several records: the CTE `unlocked` of the records that no other transaction has locked. */
function unlocked(entity: Entity, targets: readonly RecordTarget[], strength: 'update' | 'no key update'): Sql {
  if (targets.length === 1) return EMPTY;
  return sql`unlocked as materialized (
      select b.id, b.version, b.data, b.updated_at, b.updated_by
      from ${entity.table} as b join input as i on i.id = b.id
      for ${raw(strength)} of b skip locked
    ),`;
}

/** The condition on the version. Only a record that is written alone has one. */
function versionsOf(targets: readonly RecordTarget[]): Sql {
  const versions = targets[0]?.versions ?? null;
  return versions === null ? EMPTY : sql` and ${isOneOf(sql`r.version`, versions, 'bigint')}`;
}
