// The events of the outbox, as the relay and the streams pass them on. Record values are keyed by slot, as stored: each
// output decides what its reader may see. Times are ISO 8601 UTC text.
// Contract: decisions#events.
import { raw, type Sql, sql } from '../runtime/sql.ts';

/** The interface or mechanism by which a change was made. */
export type TriggeredBy = 'mcp' | 'api' | 'flow' | 'webhook' | 'ui' | 'rule' | 'system';

/** Event types of record changes, the only ones that webhooks can subscribe to. */
export const RECORD_EVENTS = ['record.created', 'record.updated', 'record.deleted'] as const;
export type RecordEventType = (typeof RECORD_EVENTS)[number];

/** All event types. Event streams send each of them. */
export const EVENT_TYPES = [
  ...RECORD_EVENTS,
  'rule.executed',
  'rule.failed',
  'message.received',
  'message.chain_limit',
  'quota.warning',
  'webhook.disabled',
] as const;

/** An entity was dropped, or a field renamed, retyped or dropped: only the feed shows it. */
export const DEFINITION_CHANGED = 'definition.changed';
export type EventType = (typeof EVENT_TYPES)[number] | typeof DEFINITION_CHANGED;

/** Events about the tenant itself: only its admins see them. */
export const ADMIN_EVENTS: readonly EventType[] = ['quota.warning', 'webhook.disabled'];

/** A record's row: `data` by slot. */
export interface RecordRow {
  id: string;
  version: number;
  data: Record<string, unknown>;
  created_at: string;
  updated_at: string;
  created_by: string | null;
  updated_by: string | null;
}

/** The columns of a RecordRow, in a table with the alias `r`. */
export const RECORD_COLUMNS: Sql = sql`r.id, r.version, r.data, r.created_at, r.updated_at, r.created_by, r.updated_by`;

/** A committed event: the change of a record, with a `row`, or another event of the tenant, with a `payload`. */
export interface CommittedEvent {
  /** UUIDv7; shown as `evt_<id>`. */
  id: string;
  seq: number;
  at: string;
  tenantId: string;
  type: EventType;
  entityId: string | null;
  entity: string | null;
  recordId: string | null;
  /** The record after the change; for a deletion, the record before it. */
  row: RecordRow | null;
  payload: Record<string, unknown> | null;
  actor: string | null;
  triggeredBy: TriggeredBy;
  depth: number;
  /** The transaction that made the change. */
  xid: string;
  /** The trace of the request that caused the event (runtime/trace.ts); absent without one. */
  trace?: string | null;
  /** Present when the record's values have been erased (erasure.ts): then `row` has none. */
  erased?: Erased;
}

/** When values were erased, and by whom: the id of an admin, null for the super-admin. */
export interface Erased {
  at: string;
  by: string | null;
}

/** An event as a row of platform.events, with the record's columns beside its own. */
export type EventRow = Omit<CommittedEvent, 'row' | 'erased'> & { erasedAt: string | null; erasedBy: string | null } & (
    | Omit<RecordRow, 'id'>
    | { version: null }
  );

/** The columns of an EventRow. */
export const EVENT_COLUMNS: Sql = sql`id, seq, at, tenant_id as "tenantId", type, entity_id as "entityId", entity,
  record_id as "recordId", version, data, created_at, updated_at, created_by, updated_by, payload, actor,
  triggered_by as "triggeredBy", depth, xid::text as xid, trace, erased_at as "erasedAt", erased_by as "erasedBy"`;

/** Compressed values larger than this are not unpacked to find out their size; pglz makes values up to 91 times smaller. */
const UNPACKED_BYTES = 1_024;
const RATIO_MAX = 91;
const VALUE_BYTES_MAX = 1_048_576;

/** The `storedSize` of an event's values; `event` is the alias of its table. */
export function eventSize(event: Sql): Sql {
  return sql`coalesce(${event}.data_bytes, ${storedSize(sql`coalesce(${event}.data, ${event}.payload)`)})`;
}

/** An approximate lower bound of the length of a stored value's JSON; 0 for null. Large values are not read. */
export function storedSize(value: Sql): Sql {
  return sql`(case
    when ${value} is null then 0
    when pg_column_compression(${value}) is null then pg_column_size(${value})
    when pg_column_size(${value}) <= ${raw(String(UNPACKED_BYTES))} then octet_length(${value}::text)
    else least(${raw(String(VALUE_BYTES_MAX))}, pg_column_size(${value}) * ${raw(String(RATIO_MAX))})
  end)`;
}

export function toEvent(stored: EventRow): CommittedEvent {
  const { id, seq, at, tenantId, type, entityId, entity, recordId, payload, actor, triggeredBy, depth, xid } = stored;
  const row = rowOf(stored);
  const event = {
    id,
    seq,
    at,
    tenantId,
    type,
    entityId,
    entity,
    recordId,
    row,
    payload,
    actor,
    triggeredBy,
    depth,
    xid,
  };
  const { trace, erasedAt, erasedBy } = stored;
  const traced = trace == null ? event : { ...event, trace };
  return erasedAt === null ? traced : { ...traced, erased: { at: erasedAt, by: erasedBy } };
}

function rowOf(stored: EventRow): RecordRow | null {
  if (stored.version === null || stored.recordId === null) return null;
  const { recordId: id, version, data, created_at, updated_at, created_by, updated_by } = stored;
  return { id, version, data, created_at, updated_at, created_by, updated_by };
}
