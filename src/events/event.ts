// A committed change on its way from the outbox to the streams and webhooks. Records are in stored form,
// keyed by slot: each output decides what its reader may see. Times are ISO 8601 UTC text.
// Contract: decisions#events.
import { type Sql, sql } from '../runtime/sql.ts';

/** How a change came in. */
export type TriggeredBy = 'mcp' | 'api' | 'flow' | 'webhook' | 'ui' | 'rule' | 'system';

/** Event types of record changes, the only ones that webhooks can subscribe to. */
export const RECORD_EVENTS = ['record.created', 'record.updated', 'record.deleted'] as const;
export type RecordEventType = (typeof RECORD_EVENTS)[number];

/** All event types; every one is sent on event streams. */
export const EVENT_TYPES = [
  ...RECORD_EVENTS,
  'rule.executed',
  'rule.failed',
  'message.received',
  'message.chain_limit',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

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

/** The columns of a RecordRow, of the table named `r`. */
export const RECORD_COLUMNS: Sql = sql`r.id, r.version, r.data, r.created_at, r.updated_at, r.created_by, r.updated_by`;

/** A change of a record, or another event of a tenant, which has a `payload`. */
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
  /** The after image, of a deletion the before image; null for other events. */
  row: RecordRow | null;
  payload: Record<string, unknown> | null;
  actor: string | null;
  triggeredBy: TriggeredBy;
  depth: number;
  /** The transaction that made the change. */
  xid: string;
}

/** A row of platform.events with the columns of EVENT_COLUMNS. */
export interface EventRecord {
  id: string;
  seq: number;
  at: string;
  tenant_id: string;
  type: EventType;
  entity_id: string | null;
  entity: string | null;
  record_id: string | null;
  version: number | null;
  data: Record<string, unknown> | null;
  created_at: string | null;
  updated_at: string | null;
  created_by: string | null;
  updated_by: string | null;
  payload: Record<string, unknown> | null;
  actor: string | null;
  triggered_by: TriggeredBy;
  depth: number;
  xid: string;
}

export const EVENT_COLUMNS: Sql = sql`id, seq, at, tenant_id, type, entity_id, entity, record_id, version, data, created_at,
  updated_at, created_by, updated_by, payload, actor, triggered_by, depth, xid::text as xid`;

export function toEvent(row: EventRecord): CommittedEvent {
  return {
    id: row.id,
    seq: row.seq,
    at: row.at,
    tenantId: row.tenant_id,
    type: row.type,
    entityId: row.entity_id,
    entity: row.entity,
    recordId: row.record_id,
    row: rowOf(row),
    payload: row.payload,
    actor: row.actor,
    triggeredBy: row.triggered_by,
    depth: row.depth,
    xid: row.xid,
  };
}

function rowOf(row: EventRecord): RecordRow | null {
  const { record_id: id, version, data, created_at, updated_at, created_by, updated_by } = row;
  if (id === null || version === null || data === null || created_at === null || updated_at === null) return null;
  return { id, version, data, created_at, updated_at, created_by, updated_by };
}
