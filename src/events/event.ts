// A committed change as it travels: from the outbox through the relay to every stream. Records are
// in stored form, by slot; what a reader may see is decided where it is read.
// Contract: decisions#events.

/** The way a change came in. */
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

/** A record's change, or something else that happened in a tenant (`payload`, in the shape it is shown in). */
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
  /** The record after the change, before it for a deletion. Null for other events. */
  row: EventRow | null;
  payload: Record<string, unknown> | null;
  actor: string | null;
  triggeredBy: TriggeredBy;
  depth: number;
}

/** The record's row as it stood. */
export interface EventRow {
  id: string;
  version: number;
  data: Record<string, unknown>;
  created_at: string;
  updated_at: string;
  created_by: string | null;
  updated_by: string | null;
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
}

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
  };
}

function rowOf(row: EventRecord): EventRow | null {
  const { record_id: id, version, data, created_at, updated_at, created_by, updated_by } = row;
  if (id === null || version === null || data === null || created_at === null || updated_at === null) return null;
  return { id, version, data, created_at, updated_at, created_by, updated_by };
}
