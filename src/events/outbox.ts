// The only way an event is born, and its webhook deliveries with it: as parts of the statement that
// makes the change, so that all of them commit together or not at all.
// Contract: decisions#events.
import { newId } from '../runtime/ids.ts';
import { EMPTY, literal, type Sql, sql, type Tx } from '../runtime/sql.ts';
import type { EventType, RecordEventType, TriggeredBy } from './event.ts';
import type { RelayedEvent } from './relay.ts';

/** Why and by whom a change is made; it travels with the event. */
export interface Cause {
  tenantId: string;
  /** The caller's id; null for the super-admin and the service itself. */
  actor: string | null;
  triggeredBy: TriggeredBy;
  /** 0 for a caller's own change; one more for each rule in between. */
  depth: number;
  /** The event that began the chain; null for the first. */
  rootEventId: string | null;
  /** Is told the event of a change of a single record, by the statement that makes it, where somebody waits for it. */
  tell?: (event: RelayedEvent) => void;
}

/**
 * The insert that records one event for every row of `changed`, a CTE with the columns event_id, id,
 * version, data, created_at, updated_at, created_by, updated_by.
 */
export function appendEvents(
  changed: Sql,
  type: RecordEventType,
  entity: { id: string; name: string },
  cause: Cause,
): Sql {
  return sql`
    insert into platform.events (id, tenant_id, entity_id, entity, record_id, type, version, data,
      created_at, updated_at, created_by, updated_by, actor, triggered_by, depth, root_event_id)
    select c.event_id, ${cause.tenantId}::uuid, ${literal(entity.id)}::uuid, ${literal(entity.name)}, c.id, ${literal(type)},
      c.version, c.data, c.created_at, c.updated_at, c.created_by, c.updated_by, ${cause.actor}, ${cause.triggeredBy},
      ${cause.depth}::int, ${cause.rootEventId}::uuid
    from ${changed} as c`;
}

/** Subscriptions whose deliveries of a change are born on their way, under a claim of the process that makes it. */
export interface Share {
  claimId: string;
  leaseMs: number;
  subscriptionIds: readonly string[];
}

/**
 * The insert that records a webhook delivery for every event of `evented` (a CTE with the columns id, seq, at, tenant_id,
 * record_id, type) and every subscription named: those that are active and ask for it, by a definition that the change
 * finds to be the present one.
 */
export function appendDeliveries(evented: Sql, subscriptionIds: readonly string[], share?: Share): Sql {
  const columns = sql`subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type`;
  return sql`
    insert into platform.webhook_deliveries (${columns}${share === undefined ? EMPTY : sql`, claim_id, next_at`})
    select s.id, e.tenant_id, e.id, e.seq, e.at, e.record_id, e.type${share === undefined ? EMPTY : sql`, ${claimOf(share)}`}
    from ${evented} as e
    cross join unnest(${literal(`{${subscriptionIds.join()}}`)}::uuid[]) as s (id)`;
}

function claimOf({ claimId, leaseMs, subscriptionIds }: Share): Sql {
  const isShared = sql`s.id = any(${[...subscriptionIds]}::uuid[])`;
  return sql`case when ${isShared} then ${claimId}::uuid end,
    now() + case when ${isShared} then ${leaseMs}::int else 0 end * interval '1 ms'`;
}

/** Records an event that is not of a record, in the transaction of what it tells of. Resolves to its id. */
export async function appendEvent(
  tx: Tx,
  type: Exclude<EventType, RecordEventType>,
  cause: Cause,
  payload: Record<string, unknown>,
  about: { entity: string; recordId: string } | null = null,
): Promise<string> {
  const id = newId();
  await tx.rows(sql`
    insert into platform.events (id, tenant_id, type, entity, record_id, payload, actor, triggered_by, depth,
      root_event_id)
    values (${id}::uuid, ${cause.tenantId}::uuid, ${type}, ${about?.entity ?? null}, ${about?.recordId ?? null}::uuid,
      ${JSON.stringify(payload)}::text::jsonb, ${cause.actor}, ${cause.triggeredBy}, ${cause.depth}::int,
      ${cause.rootEventId}::uuid)`);
  return id;
}
