// The statements that change records. Each is one statement for any number of rows: the change, the
// entity's counters and the events commit together without a begin and a commit of their own. Each
// names the definition's version it was made for, and, but for a change made unseen, the version of each
// row it replaces: where either has moved on, the row is left alone and not returned, and the caller looks again.
import type { Entity } from '../../entities/field.ts';
import { searchVector } from '../../entities/search-vector.ts';
import { dualWrite, type SlotValues } from '../../entities/values.ts';
import type { Cause, Share } from '../../events/outbox.ts';
import { EMPTY, identifier, inputRows, join, literal, type Queries, raw, type Sql, sql } from '../../runtime/sql.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';
import { EVENTED_COLUMNS, type EventedRow, runChange, tellOf } from './commit-notice.ts';
import type { Born, Places } from './inline-delivery.ts';
import { identified, type Made, partOf, sideEffects } from './side-effects.ts';

/** A record to insert. */
export interface NewRow {
  id: string;
  data: SlotValues;
  /** The after rules that the change starts, in their order. */
  starts?: readonly string[];
}

/** A record to replace or delete, as it was read. */
export interface KnownRow {
  id: string;
  version: number;
  starts?: readonly string[];
}

/** A record with the data to put in its place. */
export interface ReplacedRow extends KnownRow {
  data: SlotValues;
  /** No text that is searched changes, so its words need not be cut again. */
  isSearchVectorUnchanged?: boolean;
}

/** A record to change as it lies there, whatever it holds, so long as it meets what is said here. */
export interface RowTarget {
  id: string;
  /** Null for any. */
  versions: readonly number[] | null;
  /** A further condition on `r`: the caller's row filter. */
  rows: Sql | null;
}

/** What a patch sets and takes away; slots that it does not name keep their values. */
export interface StoredPatch {
  set: SlotValues;
  cleared: readonly string[];
  /** The record's words after it, null for none; undefined where they stay as they are. */
  words: string | null | undefined;
}

/** Records that must exist, and stay, for the change to be made: a relation's targets. */
export interface Target {
  table: Sql;
  ids: readonly string[];
  /** A further condition on `r`: the caller's row filter on the target. */
  rows: Sql | null;
}

/** Inserts all rows, or none when the definition has changed or a target is missing. Returns how many. */
export async function insertRows(
  queries: Queries,
  entity: Entity,
  rows: readonly NewRow[],
  cause: Cause,
  at: string,
  targets: readonly Target[] = [],
): Promise<number> {
  const change = { entity, type: 'record.created', rows: rows.length, cause } as const;
  const inserted = await runChange(queries, insertion(entity, identified(rows), cause, at, targets), change);
  return inserted.length;
}

/** Inserts one row, and settles the places that its deliveries have here. False as for none above. */
export async function insertRow(
  queries: Queries,
  entity: Entity,
  row: NewRow,
  cause: Cause,
  at: string,
  targets: readonly Target[],
  places: Places | undefined,
): Promise<boolean> {
  if (places === undefined) return (await insertRows(queries, entity, [row], cause, at, targets)) === 1;
  const inserted = await queries.first<EventedRow & { born: Born[] }>(sql`
    ${insertion(entity, identified([row]), cause, at, targets, places.share)}
    select ${EVENTED_COLUMNS}, coalesce(d.born, '[]') as born
    from changed as r, evented as e, (
      select json_agg(json_build_object('id', d.id, 'subscriptionId', d.subscription_id,
        'isClaimed', d.claim_id is not null, 'url', s.url, 'secret', s.secret)) as born
      from delivered as d
      left join platform.webhook_subscriptions as s on s.id = d.subscription_id and d.claim_id is not null
    ) as d`);
  if (inserted === undefined) return false;
  const { born, ...evented } = inserted;
  const type = 'record.created';
  places.settle({ eventId: evented.event_id, at: evented.event_at, type, entity, row: evented }, born);
  tellOf(evented, { entity, type, cause });
  return true;
}

/** The CTEs of an insert; `changed` has the rows. */
function insertion(
  entity: Entity,
  made: readonly (NewRow & Made)[],
  cause: Cause,
  at: string,
  targets: readonly Target[],
  share?: Share,
): Sql {
  const input = made.map(({ id, data: given, eventId }) => {
    const data = dualWrite(entity, given);
    return [id, JSON.stringify(data), searchVector(entity, data), eventId];
  });
  return sql`
    with input (id, data, words, event_id) as (
      ${inputRows(['uuid', 'text', 'text', 'uuid'], input)}
    ), ${lockedTargets(targets)}
    changed as (
      insert into ${entity.table} as r
        (id, entity_id, data, words, version, created_at, updated_at, created_by, updated_by)
      select i.id, ${literal(entity.id)}::uuid, i.data::jsonb, i.words::tsvector, 1, ${at}::timestamptz, ${at}::timestamptz,
        ${cause.actor}, ${cause.actor}
      from input as i
      where ${isCurrent(entity)} and ${targetsStand(targets)}
      returning ${RECORD_COLUMNS}
    ), ${sideEffects(entity, 'record.created', made, cause, share)}`;
}

/** Replaces the data of rows that still have the version given. Returns the ids that were replaced. */
export async function updateRows(
  queries: Queries,
  entity: Entity,
  rows: readonly ReplacedRow[],
  cause: Cause,
  at: string,
  targets: readonly Target[] = [],
): Promise<Set<string>> {
  const isSearchVectorUnchanged = rows.every((row) => row.isSearchVectorUnchanged === true);
  const made = identified(rows);
  const input = made.map(({ id, version, data: given, eventId }) => {
    const data = dualWrite(entity, given);
    return [id, version, JSON.stringify(data), isSearchVectorUnchanged ? null : searchVector(entity, data), eventId];
  });
  const change = sql`
    with input (id, version, data, words, event_id) as (
      ${inputRows(['uuid', 'bigint', 'text', 'text', 'uuid'], input)}
    ), ${lockedTargets(targets)}
    changed as (
      update ${entity.table} as r
      set data = i.data::jsonb,
        ${isSearchVectorUnchanged ? EMPTY : sql`words = i.words::tsvector,`}
        version = r.version + 1,
        updated_at = ${at}::timestamptz,
        updated_by = ${cause.actor}
      from input as i
      where r.id = i.id and r.version = i.version and ${isCurrent(entity)} and ${targetsStand(targets)}
      returning ${RECORD_COLUMNS}
    ), ${sideEffects(entity, 'record.updated', made, cause)}`;
  const updated = await runChange(queries, change, { entity, type: 'record.updated', rows: rows.length, cause });
  return new Set(updated.map(({ id }) => id));
}

/** Changes one row without having read it. Resolves to the row as it now is, or undefined when it did not match. */
export async function patchRow(
  queries: Queries,
  entity: Entity,
  row: RowTarget,
  { set, cleared, words }: StoredPatch,
  cause: Cause,
  at: string,
): Promise<RecordRow | undefined> {
  const change = sql`
    with changed as (
      update ${entity.table} as r
      set data = (r.data || ${JSON.stringify(set)}::text::jsonb)${cleared.length === 0 ? EMPTY : sql` - ${cleared}::text[]`},
        ${words === undefined ? EMPTY : sql`words = ${words}::text::tsvector,`}
        version = r.version + 1,
        updated_at = ${at}::timestamptz,
        updated_by = ${cause.actor}
      where ${matches(row)} and ${isCurrent(entity)}
      returning ${RECORD_COLUMNS}
    ), ${sideEffects(entity, 'record.updated', identified([row]), cause)}`;
  const of = { entity, type: 'record.updated', rows: 1, cause } as const;
  const [changed] = await runChange(queries, change, of, RECORD_COLUMNS);
  return changed;
}

/** Deletes one row without having read it. False when it did not match. */
export async function deleteRow(queries: Queries, entity: Entity, row: RowTarget, cause: Cause): Promise<boolean> {
  const change = sql`
    with changed as (
      delete from ${entity.table} as r
      where ${matches(row)} and ${isCurrent(entity)}
      returning ${RECORD_COLUMNS}
    ), ${sideEffects(entity, 'record.deleted', identified([row]), cause)}`;
  const deleted = await runChange(queries, change, { entity, type: 'record.deleted', rows: 1, cause });
  return deleted.length === 1;
}

function matches({ id, versions, rows }: RowTarget): Sql {
  const conditions = [sql`r.id = ${id}::uuid`];
  if (versions !== null) conditions.push(isOneOf(sql`r.version`, versions, 'bigint'));
  if (rows !== null) conditions.push(rows);
  return join(conditions, ' and ');
}

/** Deletes rows that still have the version given. Returns the ids that were deleted. */
export async function deleteRows(
  queries: Queries,
  entity: Entity,
  rows: readonly KnownRow[],
  cause: Cause,
): Promise<Set<string>> {
  const made = identified(rows);
  const change = sql`
    with input (id, version, event_id) as (
      ${inputRows(
        ['uuid', 'bigint', 'uuid'],
        made.map(({ id, version, eventId }) => [id, version, eventId]),
      )}
    ),
    changed as (
      delete from ${entity.table} as r
      using input as i
      where r.id = i.id and r.version = i.version and ${isCurrent(entity)}
      returning ${RECORD_COLUMNS}
    ), ${sideEffects(entity, 'record.deleted', made, cause)}`;
  const deleted = await runChange(queries, change, { entity, type: 'record.deleted', rows: rows.length, cause });
  return new Set(deleted.map(({ id }) => id));
}

/**
 * For a single value an equality, whose plan Postgres keeps: with an array of unknown length it would plan each time
 * anew.
 */
function isOneOf(column: Sql, values: readonly unknown[], type: 'uuid' | 'bigint'): Sql {
  const [only] = values;
  return values.length === 1 && only !== undefined
    ? sql`${column} = ${only}::${raw(type)}`
    : sql`${column} = any(${[...values]}::${raw(`${type}[]`)})`;
}

/** True as long as the definition is the one that the change was made for. */
function isCurrent(entity: Entity): Sql {
  return partOf(
    entity,
    'current',
    ({ id, schema, version }) => sql`exists (
    select from ${identifier(schema, 'entity_definitions')} as d
    where d.id = ${literal(id)}::uuid and d.version = ${literal(String(version))}::bigint)`,
  );
}

/** Key-share locks keep a target from being deleted until the change that points at it is committed. */
function lockedTargets(targets: readonly Target[]): Sql {
  if (targets.length === 0) return EMPTY;
  const ctes = targets.map(
    ({ table, ids, rows }, i) => sql`${identifier(`target_${i}`)} as materialized (
      select r.id from ${table} as r
      where ${isOneOf(sql`r.id`, ids, 'uuid')} ${rows === null ? EMPTY : sql`and ${rows}`}
      for key share
    ), `,
  );
  return join(ctes, '');
}

function targetsStand(targets: readonly Target[]): Sql {
  if (targets.length === 0) return sql`true`;
  const counts = targets.map(({ ids }, i) => {
    const found = identifier(`target_${i}`);
    return ids.length === 1
      ? sql`exists (select from ${found})`
      : sql`(select count(*) from ${found}) = ${ids.length}::bigint`;
  });
  return join(counts, ' and ');
}
