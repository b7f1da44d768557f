// The outbox: the statement or transaction that makes a change also inserts its events and webhook deliveries, so that
// they commit together or not at all. Publications (publication.ts) append the events of records.
// Contract: decisions#events, decisions#guarantees.
import { newId } from '../runtime/ids.ts';
import { EMPTY, literal, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { storedTrace } from '../runtime/trace.ts';
import { currentWork } from '../runtime/work.ts';
import { tallyEvent } from '../usage/tally.ts';
import type { EventType, RecordEventType, TriggeredBy } from './event.ts';

/** Who makes a change, and the event that led to it; stored with the event of the change. */
export interface Cause {
  tenantId: string;
  /** The caller's id; null for the super-admin and the service itself. */
  actor: string | null;
  triggeredBy: TriggeredBy;
  /** The number of rules between a caller's own change and this one. */
  depth: number;
  /** The event that began the chain; null for that event itself. */
  rootEventId: string | null;
  /** The rule runs that the chain has started, as far as known; 0 for the event that begins it. */
  chainRuns: number;
  /** The id of the import that makes the change. */
  importId?: string;
}

/** The trace of the current request, in the form that events store; null without one. */
export function currentTrace(): string | null {
  const { trace } = currentWork();
  return trace === null ? null : storedTrace(trace);
}

/** Subscriptions whose deliveries are inserted already claimed by the process that makes the change. */
export interface Reservation {
  claimId: string;
  leaseMs: number;
  subscriptionIds: readonly string[];
}

/**
 * Inserts one event for every row of `changed`, which has the column event_id and the columns of a RecordRow; for an update
 * also `old`.
 */
export function appendEvents(
  changed: Sql,
  type: RecordEventType,
  entity: { id: string; name: string },
  cause: Cause,
  trace: string | null,
): Sql {
  const { importId } = cause;
  const [traceColumn, traceValue] = trace === null ? [EMPTY, EMPTY] : [sql`, trace`, sql`, ${trace}::text`];
  const [importColumn, importValue] =
    importId === undefined ? [EMPTY, EMPTY] : [sql`, import_id`, sql`, ${importId}::uuid`];
  const [oldColumn, oldValue] = type === 'record.updated' ? [sql`, old`, sql`, c.old`] : [EMPTY, EMPTY];
  return sql`
    insert into platform.events (id, tenant_id, entity_id, entity, record_id, type, version, data,
      created_at, updated_at, created_by, updated_by, data_bytes, actor, triggered_by, depth,
      root_event_id${oldColumn}${traceColumn}${importColumn})
    select c.event_id, ${cause.tenantId}::uuid, ${literal(entity.id)}::uuid, ${literal(entity.name)}, c.id, ${literal(type)},
      c.version, c.data, c.created_at, c.updated_at, c.created_by, c.updated_by,
      case when pg_column_compression(c.data) is null then pg_column_size(c.data) end, ${cause.actor}, ${cause.triggeredBy},
      ${cause.depth}::int, ${cause.rootEventId}::uuid${oldValue}${traceValue}${importValue}
    from ${changed} as c`;
}

/** Inserts one delivery for every event of the CTE `evented` and every subscription of the checked definition. */
export function appendDeliveries(
  subscriptionIds: readonly string[],
  trace: string | null,
  reservation?: Reservation,
): Sql {
  const columns = sql`subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type`;
  const [claimColumns, claim] =
    reservation === undefined ? [EMPTY, EMPTY] : [sql`, claim_id, next_at`, sql`, ${claimOf(reservation)}`];
  const [traceColumn, traceValue] = trace === null ? [EMPTY, EMPTY] : [sql`, trace`, sql`, ${trace}::text`];
  return sql`
    insert into platform.webhook_deliveries (${columns}${claimColumns}${traceColumn})
    select s.id, e.tenant_id, e.id, e.seq, e.at, e.record_id, e.type${claim}${traceValue}
    from evented as e
    cross join unnest(${literal(`{${subscriptionIds.join()}}`)}::uuid[]) as s (id)`;
}

function claimOf({ claimId, leaseMs, subscriptionIds }: Reservation): Sql {
  const isReserved = sql`s.id = any(${[...subscriptionIds]}::uuid[])`;
  return sql`case when ${isReserved} then ${claimId}::uuid end,
    now() + case when ${isReserved} then ${leaseMs}::int else 0 end * interval '1 ms'`;
}

/** Inserts an event that is not the change of a record. Resolves to its id. */
export async function appendEvent(
  tx: Tx,
  type: Exclude<EventType, RecordEventType>,
  cause: Cause,
  payload: Record<string, unknown>,
  about: { entity: string; entityId?: string; recordId: string | null } | null = null,
): Promise<string> {
  const id = newId();
  if (tx.dryRun !== undefined) {
    tx.dryRun.count(1, 0);
    return id;
  }
  // The transaction must have its id before the event has its number: feed-heads.ts depends on it. A change of records has its
  // id already, since its events are made of the rows that it has changed.
  await tx.rows(sql`
    with own as materialized (select pg_current_xact_id() as xid)
    insert into platform.events (id, xid, tenant_id, type, entity_id, entity, record_id, payload, actor, triggered_by, depth,
      root_event_id)
    select ${id}::uuid, own.xid, ${cause.tenantId}::uuid, ${type}, ${about?.entityId ?? null}::uuid, ${about?.entity ?? null},
      ${about?.recordId ?? null}::uuid, ${JSON.stringify(payload)}::text::jsonb, ${cause.actor}, ${cause.triggeredBy},
      ${cause.depth}::int, ${cause.rootEventId}::uuid
    from own`);
  tallyEvent(tx, cause.tenantId);
  return id;
}
