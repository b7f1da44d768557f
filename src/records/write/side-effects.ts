// The side effects of a write, as further CTEs of its statement: the entity's counters, and the runs of the after rules
// that the change starts. The statement's CTE `changed` returns the changed rows; for more than one row, its CTE
// `input` has their event ids.
import type { Entity } from '../../entities/field.ts';
import type { RecordEventType } from '../../events/event.ts';
import type { Cause } from '../../events/outbox.ts';
import { LIMITS } from '../../limits.ts';
import { newId } from '../../runtime/ids.ts';
import { cachedPart, EMPTY, identifier, literal, raw, type Sql, sql } from '../../runtime/sql.ts';
import type { PreparedRow } from './triggers.ts';

/** A row to be changed, with the id of its event. */
export interface EventedRow extends Partial<Pick<PreparedRow, 'starts'>> {
  id: string;
  eventId: string;
}

export function withNewEventIds<R extends { id: string }>(rows: readonly R[]): (R & { eventId: string })[] {
  return rows.map((row) => ({ ...row, eventId: newId() }));
}

/**
 * The rows of `changed` with a column `event_id`. A single row gets it without a join, which would slow every write.
 */
export function changedWithEventIds(rows: readonly EventedRow[]): Sql {
  const [only] = rows;
  return rows.length === 1 && only !== undefined
    ? sql`(select c.*, ${only.eventId}::uuid as event_id from changed as c)`
    : sql`(select c.*, i.event_id from changed as c join input as i using (id))`;
}

const COUNT_CHANGE = { 'record.created': 1, 'record.updated': 0, 'record.deleted': -1 } as const;

/** Updates the entity's counts of records and of writes in this database connection's slot. */
export function updateCounters(entity: Entity, type: RecordEventType, rowsMax: number): Sql {
  const rows = rowsMax === 1 ? '1' : '(select count(*) from changed)';
  const { id, schema } = entity;
  return cachedPart(
    entity,
    `counted ${type} ${rows}`,
    () => sql`, counted as (
    update ${identifier(schema, 'entity_counts')} as n
    set n = n.n + ${raw(String(COUNT_CHANGE[type]))} * ${raw(rows)}, v = n.v + 1
    where n.entity_id = ${literal(id)}::uuid and n.slot = pg_backend_pid() % ${raw(String(LIMITS.counterSlots))}
      and exists (select from changed)
  )`,
  );
}

/** Queues the after rules that the change starts, with the after image. */
export function startRules(entity: Entity, rows: readonly EventedRow[], changes: Sql, cause: Cause): Sql {
  const runs = rows.flatMap(({ id, starts = [] }) => starts.map((ruleId) => ({ id, ruleId })));
  if (runs.length === 0) return EMPTY;
  return sql`, started as (
    insert into platform.rule_runs (event_id, rule_id, tenant_id, entity_id, record_id, version, data, created_at,
      updated_at, created_by, updated_by, actor, depth, root_event_id)
    select c.event_id, s.rule_id, ${cause.tenantId}::uuid, ${entity.id}::uuid, c.id, c.version, c.data, c.created_at,
      c.updated_at, c.created_by, c.updated_by, ${cause.actor}, ${cause.depth}::int,
      coalesce(${cause.rootEventId}::uuid, c.event_id)
    from unnest(${runs.map(({ id }) => id)}::uuid[], ${runs.map(({ ruleId }) => ruleId)}::uuid[])
      with ordinality as s (id, rule_id, position)
    join ${changes} as c on c.id = s.id
    order by s.position
  )`;
}
