// The statements that change records. Each changes a row only if the definition still has the version that was read, and
// so does the row, except in a blind write. The caller reads again when fewer rows changed than it passed. Counters, rule
// runs, the event and its deliveries are part of the statement.
import type { Entity } from '../../entities/field.ts';
import { searchVector } from '../../entities/search-vector.ts';
import { dualWrite } from '../../entities/values.ts';
import { FORMER_VALUES } from '../../events/before-image.ts';
import type { EntityChange } from '../../events/entity-change.ts';
import type { RecordEventType } from '../../events/event.ts';
import { type Publication, rowsPerStatement } from '../../events/publication.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { cachedPart, EMPTY, identifier, inputRows, join, literal, raw, type Sql, sql } from '../../runtime/sql.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';
import type { Turn } from './context.ts';
import {
  bytesGrown,
  COUNT_CHANGE,
  changedWithEventIds,
  type RowWithEventId,
  startRules,
  updateCounters,
  withNewEventIds,
} from './side-effects.ts';
import type { PreparedRow } from './triggers.ts';

/** The record that a request names, and the versions that the request accepts; null accepts any. */
export interface RecordTarget {
  id: string;
  versions: readonly number[] | null;
}

/** Records that a relation points at: they must exist until the change is committed. */
export interface RelationTarget {
  table: Sql;
  ids: readonly string[];
  /** The caller's row filter, a condition on `r`. */
  rowFilter: Sql | null;
}

export interface InsertOptions {
  /** The author of a record that comes back. */
  origin?: Pick<RecordRow, 'created_by'>;
  /** Whether to skip a row whose unique value a record already has; the statement waits for a record that is being written. */
  isLeftOutIfTaken?: boolean;
  /** Resolves when the statement may run. */
  turn?: Turn | undefined;
}

/**
 * Inserts all rows, or none when the definition has changed or a target is missing. Resolves to the ids of the inserted rows.
 * All rows are new, except a row with an `origin`, which comes back.
 */
export async function insertRows(
  publication: Publication,
  entity: Entity,
  rows: readonly PreparedRow[],
  targets: readonly RelationTarget[],
  { origin, isLeftOutIfTaken = false, turn }: InsertOptions = {},
): Promise<string[]> {
  const rowsWithIds = withNewEventIds(rows);
  const isFirst = rows.every(({ version }) => version === 1);
  const types = ['uuid', 'text', 'text', 'uuid', 'timestamptz', 'timestamptz', ...(isFirst ? [] : ['bigint'])];
  const input: unknown[][] = [];
  for (const { id, version, data: given, eventId, created_at: createdAt, updated_at: updatedAt } of rowsWithIds) {
    const way = giveWay();
    if (way !== undefined) await way;
    const dual = dualWrite(entity, given);
    const data = dual instanceof Promise ? await dual : dual;
    const json = JSON.stringify(data);
    const words = searchVector(entity, data);
    const vector = words instanceof Promise ? await words : words;
    input.push([id, json, vector, eventId, createdAt, updatedAt, ...(isFirst ? [] : [version])]);
  }
  const { actor } = publication.cause;
  const { created_by: createdBy } = origin ?? { created_by: actor };
  const ctes = sql`
    with input (id, data, search_vector, event_id, created_at, updated_at${isFirst ? EMPTY : sql`, version`}) as (
      ${inputRows(types, input)}
    ), ${lockTargets(targets)}
    changed as (
      insert into ${entity.table} as r
        (id, entity_id, data, search_vector, version, created_at, updated_at, created_by, updated_by)
      select i.id, ${literal(entity.id)}::uuid, i.data::jsonb, i.search_vector::tsvector, ${isFirst ? sql`1` : sql`i.version`}, i.created_at, i.updated_at,
        ${createdBy}, ${actor}
      from input as i
      where ${isCurrent(entity)} and ${publication.room} and ${targetsExist(targets)}
      ${isLeftOutIfTaken ? sql`on conflict do nothing` : EMPTY}
      returning ${RECORD_COLUMNS}
    )`;
  await turn?.(true);
  return (await apply(publication, entity, 'record.created', rowsWithIds, ctes)).map(({ id }) => id);
}

/** A row to be replaced with its after image. */
type ChangedRow = PreparedRow & { isSearchVectorUnchanged?: boolean };

/**
 * Replaces rows with their after images, if they still have the version that was read. Resolves to the number of changed rows.
 */
export function updateRows(
  publication: Publication,
  entity: Entity,
  rows: readonly ChangedRow[],
  at: string,
  targets: readonly RelationTarget[] = [],
): Promise<number> {
  return inParts(publication, { entity, type: 'record.updated' }, rows, (part) =>
    updatePart(publication, entity, part, at, targets),
  );
}

/**
 * Splits the rows into as many statements as their deliveries need, and stops after a statement that changes fewer rows than it
 * has.
 */
async function inParts<R>(
  publication: Publication,
  change: EntityChange,
  rows: readonly R[],
  write: (part: readonly R[]) => Promise<number>,
): Promise<number> {
  publication.requireFewDeliveries(change, rows.length);
  const size = Math.min(rows.length, rowsPerStatement(change));
  let count = 0;
  for (let start = 0; start < rows.length && count === start; start += size) {
    count += await write(rows.slice(start, start + size));
  }
  return count;
}

async function updatePart(
  publication: Publication,
  entity: Entity,
  rows: readonly ChangedRow[],
  at: string,
  targets: readonly RelationTarget[],
): Promise<number> {
  const isVectorUnchanged = rows.every((row) => row.isSearchVectorUnchanged === true);
  const rowsWithIds = withNewEventIds(rows);
  const input: unknown[][] = [];
  for (const { id, version, data: given, eventId } of rowsWithIds) {
    const turn = giveWay();
    if (turn !== undefined) await turn;
    const data = await dualWrite(entity, given);
    const vector = isVectorUnchanged ? null : await searchVector(entity, data);
    input.push([id, version - 1, JSON.stringify(data), vector, eventId]);
  }
  const ctes = sql`
    with input (id, version, data, search_vector, event_id) as (
      ${inputRows(['uuid', 'bigint', 'text', 'text', 'uuid'], input)}
    ), ${lockTargets(targets)}
    changed as (
      update ${entity.table} as r
      set data = i.data::jsonb,
        ${isVectorUnchanged ? EMPTY : sql`search_vector = i.search_vector::tsvector,`}
        ${touched(publication, sql`${at}::timestamptz`)}
      from input as i
      join ${entity.table} as b on b.id = i.id and b.version = i.version
      where r.id = i.id and r.version = i.version${isSameRow(entity)} and ${isCurrent(entity)} and ${publication.room} and ${targetsExist(targets)}
      returning ${RECORD_COLUMNS}, octet_length(b.data::text) as bytes_before, ${FORMER_VALUES} as old
    )`;
  return (await apply(publication, entity, 'record.updated', rowsWithIds, ctes)).length;
}

/**
 * The condition that the row is unchanged. Removing the values of retired slots does not change the version, but the bytes and
 * former values.
 */
function isSameRow({ retiredSlots }: Entity): Sql {
  return retiredSlots.length === 0 ? EMPTY : sql` and r.xmin = b.xmin`;
}

/** A record to delete, without its values. */
export type DoomedRow = Pick<PreparedRow, 'id' | 'version' | 'starts'>;

/** Deletes the records that still have these versions. Resolves to the number deleted. */
export function deleteRows(publication: Publication, entity: Entity, rows: readonly DoomedRow[]): Promise<number> {
  return inParts(publication, { entity, type: 'record.deleted' }, rows, (part) =>
    deletePart(publication, entity, part),
  );
}

async function deletePart(publication: Publication, entity: Entity, rows: readonly DoomedRow[]): Promise<number> {
  const rowsWithIds = withNewEventIds(rows);
  const input = rowsWithIds.map(({ id, version, eventId }) => [id, version, eventId]);
  const ctes = sql`
    with input (id, version, event_id) as (${inputRows(['uuid', 'bigint', 'uuid'], input)}),
    changed as (
      delete from ${entity.table} as r
      using input as i
      where r.id = i.id and r.version = i.version and ${isCurrent(entity)}
      returning ${RECORD_COLUMNS}
    )`;
  return (await apply(publication, entity, 'record.deleted', rowsWithIds, ctes)).length;
}

/**
 * Adds the side effects to the CTE `changed` and runs the statement. Resolves to at least `columns` of each changed row. For
 * more than one row, the CTE `input` has their event ids.
 */
export function apply(
  publication: Publication,
  entity: Entity,
  type: RecordEventType,
  rows: readonly RowWithEventId[],
  changed: Sql,
  columns = sql`r.id`,
): Promise<RecordRow[]> {
  const withEventIds = changedWithEventIds(rows);
  const counters = updateCounters(entity, type, rows.length);
  const runs = publication.isDry ? EMPTY : startRules(entity, rows, withEventIds, publication.cause);
  const ctes = sql`${changed}${counters}${runs}`;
  const growth = { recordsPerRow: COUNT_CHANGE[type], bytesGrown: bytesGrown(type) };
  return publication.change({ entity, type, ctes, withEventIds, rowsMax: rows.length, ...growth }, columns);
}

/** Sets the columns that describe the last change. */
export function touched({ cause }: Publication, at: Sql): Sql {
  return sql`version = r.version + 1, updated_at = ${at}, updated_by = ${cause.actor}`;
}

/** Compares a single value with `=`, so that Postgres reuses a cached plan; with an array it would plan each time. */
export function isOneOf(column: Sql, values: readonly unknown[], type: 'uuid' | 'bigint'): Sql {
  const [only] = values;
  return values.length === 1 && only !== undefined
    ? sql`${column} = ${only}::${raw(type)}`
    : sql`${column} = any(${[...values]}::${raw(`${type}[]`)})`;
}

/**
 * The condition that the definition still has the version under which the change was made. The version is a bound value, so
 * that the statements stay prepared when the definition changes.
 */
export function isCurrent(entity: Entity): Sql {
  const { id, schema, version } = entity;
  const found = cachedPart(
    entity,
    'current',
    () => sql`exists (
    select from ${identifier(schema, 'entity_definitions')} as d where d.id = ${literal(id)}::uuid and d.version = `,
  );
  return sql`${found}${String(version)}::bigint)`;
}

/** Key-share locks keep a target from being deleted until the change that points at it is committed. */
function lockTargets(targets: readonly RelationTarget[]): Sql {
  if (targets.length === 0) return EMPTY;
  const ctes = targets.map(
    ({ table, ids, rowFilter }, i) => sql`${identifier(`target_${i}`)} as materialized (
      select r.id from ${table} as r
      where ${isOneOf(sql`r.id`, ids, 'uuid')} ${rowFilter === null ? EMPTY : sql`and ${rowFilter}`}
      for key share
    ), `,
  );
  return join(ctes, '');
}

function targetsExist(targets: readonly RelationTarget[]): Sql {
  if (targets.length === 0) return sql`true`;
  const counts = targets.map(({ ids }, i) => {
    const found = identifier(`target_${i}`);
    return ids.length === 1
      ? sql`exists (select from ${found})`
      : sql`(select count(*) from ${found}) = ${ids.length}::bigint`;
  });
  return join(counts, ' and ');
}
