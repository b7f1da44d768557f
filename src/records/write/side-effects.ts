// The side effects of a write, as further CTEs of its statement: the entity's counters, and the runs of the after rules
// that the change starts. The statement's CTE `changed` returns the changed rows; for more than one row, its CTE
// `input` has their event ids.
import type { Entity } from '../../entities/field.ts';
import type { RecordEventType } from '../../events/event.ts';
import type { Cause } from '../../events/outbox.ts';
import { LIMITS } from '../../limits.ts';
import { newId } from '../../runtime/ids.ts';
import { cachedPart, EMPTY, literal, raw, type Sql, sql } from '../../runtime/sql.ts';
import type { PreparedRow } from './triggers.ts';

/** A row to be changed, with the id of its event. */
export interface RowWithEventId extends Partial<Pick<PreparedRow, 'starts'>> {
  id: string;
  eventId: string;
}

export function withNewEventIds<R extends { id: string }>(rows: readonly R[]): (R & { eventId: string })[] {
  return rows.map((row) => ({ ...row, eventId: newId() }));
}

/**
 * The rows of `changed` with a column `event_id`. A single row gets it without a join, which would slow every write.
 */
export function changedWithEventIds(rows: readonly RowWithEventId[]): Sql {
  const [only] = rows;
  return rows.length === 1 && only !== undefined
    ? sql`(select c.*, ${only.eventId}::uuid as event_id from changed as c)`
    : sql`(select c.*, i.event_id from changed as c join input as i using (id))`;
}

export const COUNT_CHANGE = { 'record.created': 1, 'record.updated': 0, 'record.deleted': -1 } as const;
const BYTES_CHANGE = {
  'record.created': sql`octet_length(c.data::text)`,
  'record.updated': sql`octet_length(c.data::text) - c.bytes_before`,
  'record.deleted': sql`-octet_length(c.data::text)`,
} as const;

/** A query of the bytes by which the values of the changed rows have grown. */
export function bytesGrown(type: RecordEventType): Sql {
  return sql`select coalesce(sum(${BYTES_CHANGE[type]}), 0)::bigint from changed as c`;
}

/**
 * Updates the entity's counts of records, bytes and writes in this database connection's slot. Rows of an update have
 * the column `bytes_before`.
 */
export function updateCounters(entity: Entity, type: RecordEventType, rowsMax: number): Sql {
  const rows = rowsMax === 1 ? '1' : '(select count(*) from changed)';
  // A single row needs no aggregate, which would slow every write.
  const grown = rowsMax === 1 ? sql`select ${BYTES_CHANGE[type]} from changed as c` : bytesGrown(type);
  const { id, tenantId } = entity;
  return cachedPart(
    entity,
    `counted ${type} ${rows}`,
    () => sql`, counted as (
    update platform.entity_counts as n
    set n = n.n + ${raw(String(COUNT_CHANGE[type]))} * ${raw(rows)}, v = n.v + 1,
      bytes = n.bytes + (${grown})
    where n.tenant_id = ${literal(tenantId)}::uuid and n.entity_id = ${literal(id)}::uuid
      and n.slot = pg_backend_pid() % ${raw(String(LIMITS.counterSlots))} and exists (select from changed)
  )`,
  );
}

/**
 * Queues the after rules that the change starts, with the after image. A chain has a limit of runs: the first run beyond it is
 * queued only to report this, and the next ones are not queued.
 */
export function startRules(entity: Entity, rows: readonly RowWithEventId[], changes: Sql, cause: Cause): Sql {
  const runs = rows.flatMap(({ id, starts = [] }) => starts.map((ruleId) => [id, ruleId, starts.length] as const));
  if (runs.length === 0) return EMPTY;
  const queued = sql`
    select c.id, c.event_id, c.version, c.created_at, c.updated_at, c.created_by, c.updated_by, s.rule_id, s.position, s.runs
    from unnest(${runs.map(([id]) => id)}::uuid[], ${runs.map(([, ruleId]) => ruleId)}::uuid[],
      ${runs.map(([, , count]) => count)}::int[]) with ordinality as s (id, rule_id, runs, position)
    join ${changes} as c on c.id = s.id`;
  const insert = sql`
    insert into platform.rule_runs (event_id, rule_id, tenant_id, entity_id, record_id, version, created_at,
      updated_at, created_by, updated_by, actor, depth, root_event_id, runs)
    select c.event_id, c.rule_id, ${cause.tenantId}::uuid, ${entity.id}::uuid, c.id, c.version, c.created_at,
      c.updated_at, c.created_by, c.updated_by, ${cause.actor}, ${cause.depth}::int,
      coalesce(${cause.rootEventId}::uuid, c.event_id)`;
  // A change of a large record may start many runs: they share one image.
  const images = sql`, images as (
    insert into platform.rule_images (event_id, tenant_id, bytes, data)
    select c.event_id, ${cause.tenantId}::uuid, octet_length(c.data::text), c.data from ${changes} as c where c.event_id in (select event_id from started)
  )`;
  // At depth 0 each change begins a new chain, which cannot reach the limit of runs yet.
  if (cause.rootEventId === null) {
    return sql`, started as (${insert}, c.runs from (${queued}) as c order by c.position returning event_id)${images}`;
  }
  return sql`, queued as (${queued}), chain as (
    insert into platform.rule_chains as h (root_event_id, runs)
    select ${cause.rootEventId}::uuid, ${cause.chainRuns}::int + count(*) from queued having count(*) > 0
    on conflict (root_event_id) do update
    set runs = h.runs + excluded.runs - ${cause.chainRuns}::int, updated_at = now()
    returning runs
  ), started as (
    ${insert}, c.runs
    from (
      select q.id, q.event_id, q.version, q.created_at, q.updated_at, q.created_by, q.updated_by, q.rule_id,
        q.position, h.runs - count(*) over () + row_number() over (order by q.position) as runs
      from queued as q cross join chain as h
    ) as c
    where c.runs <= ${LIMITS.rules.chainChangesMax + 1}::int
    order by c.position
    returning event_id
  )${images}`;
}
