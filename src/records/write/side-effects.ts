// What commits with every change of records, as further parts of its statement: the entity's counters,
// the events with their webhook deliveries, the after rules that the change starts. The statement has
// the changed rows as the CTE `changed` and, for more than one row, its input with their event ids as `input`.
import type { Entity } from '../../entities/field.ts';
import type { RecordEventType } from '../../events/event.ts';
import { appendDeliveries, appendEvents, type Cause, type Share } from '../../events/outbox.ts';
import { LIMITS } from '../../limits.ts';
import { newId } from '../../runtime/ids.ts';
import { EMPTY, flatten, identifier, literal, raw, type Sql, sql } from '../../runtime/sql.ts';

/** A row of a change, with the id of the event that tells of it. */
export interface Made {
  id: string;
  eventId: string;
  starts?: readonly string[];
}

/** The rows, each with the id of an event to come. */
export function identified<R extends { id: string }>(rows: readonly R[]): (R & { eventId: string })[] {
  return rows.map((row) => ({ ...row, eventId: newId() }));
}

/** What commits with the rows of `changed`: the entity's counters, the events and their deliveries, the rules started. */
export function sideEffects(
  entity: Entity,
  type: RecordEventType,
  made: readonly Made[],
  cause: Cause,
  share?: Share,
): Sql {
  const changes = withEventIds(made);
  return sql`${counted(entity, type, made.length)}, ${evented(entity, type, changes, cause, share)}${started(entity, made, changes, cause)}`;
}

/** `changed` with the column event_id. A single row needs no join: every part of a plan costs each write its start. */
function withEventIds(made: readonly Made[]): Sql {
  const [only] = made;
  return made.length === 1 && only !== undefined
    ? sql`(select c.*, ${only.eventId}::uuid as event_id from changed as c)`
    : sql`(select c.*, i.event_id from changed as c join input as i using (id))`;
}

const parts = new WeakMap<Entity, Map<string, Sql>>();

/** A part of statements that depends on the entity's definition alone: put together once, under its name. */
export function partOf(entity: Entity, name: string, make: (entity: Entity) => Sql): Sql {
  const known = parts.get(entity) ?? new Map<string, Sql>();
  parts.set(entity, known);
  const part = known.get(name) ?? flatten(make(entity));
  known.set(name, part);
  return part;
}

const STEPS = { 'record.created': 1, 'record.updated': 0, 'record.deleted': -1 } as const;

/** Moves the entity's count of records, by one a row or not at all, and its count of writes, in this backend's slot. */
function counted(entity: Entity, type: RecordEventType, most: number): Sql {
  const rows = most === 1 ? '1' : '(select count(*) from changed)';
  return partOf(
    entity,
    `counted ${type} ${rows}`,
    ({ id, schema }) => sql`counted as (
    update ${identifier(schema, 'entity_counts')} as n
    set n = n.n + ${raw(String(STEPS[type]))} * ${raw(rows)}, v = n.v + 1
    where n.entity_id = ${literal(id)}::uuid and n.slot = pg_backend_pid() % ${raw(String(LIMITS.counterSlots))}
      and exists (select from changed)
  )`,
  );
}

/** With a share, `delivered` has the columns id, subscription_id and claim_id. */
function evented(entity: Entity, type: RecordEventType, changes: Sql, cause: Cause, share?: Share): Sql {
  const events = appendEvents(changes, type, entity, cause);
  const subscriptionIds = entity.subscribed[type];
  if (subscriptionIds === undefined && cause.tell === undefined) return sql`evented as (${events})`;
  const evented = sql`evented as (${events} returning id, seq, at, tenant_id, record_id, type, xid)`;
  if (subscriptionIds === undefined) return evented;
  const deliveries = () => appendDeliveries(sql`evented`, subscriptionIds, share);
  if (share !== undefined) {
    return sql`${evented}, delivered as (${deliveries()} returning id, subscription_id, claim_id)`;
  }
  return sql`${evented}, delivered as (${partOf(entity, `deliveries of ${type}`, deliveries)})`;
}

/** Notes the after rules to run, with the record as it is now: nothing where the change starts none. */
function started(entity: Entity, made: readonly Made[], changes: Sql, cause: Cause): Sql {
  const runs = made.flatMap(({ id, starts = [] }) => starts.map((ruleId) => ({ id, ruleId })));
  if (runs.length === 0) return EMPTY;
  return sql`, started as (
    insert into platform.rule_runs (event_id, rule_id, tenant_id, entity_id, record_id, version, data, created_at,
      updated_at, created_by, updated_by, actor, depth, root_event_id)
    select c.event_id, s.rule_id, ${cause.tenantId}::uuid, ${entity.id}::uuid, c.id, c.version, c.data, c.created_at,
      c.updated_at, c.created_by, c.updated_by, ${cause.actor}, ${cause.depth}::int,
      coalesce(${cause.rootEventId}::uuid, c.event_id)
    from unnest(${runs.map(({ id }) => id)}::uuid[], ${runs.map(({ ruleId }) => ruleId)}::uuid[])
      with ordinality as s (id, rule_id, place)
    join ${changes} as c on c.id = s.id
    order by s.place
  )`;
}
