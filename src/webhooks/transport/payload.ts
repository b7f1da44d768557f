// The body of a webhook request, rendered once: every attempt sends the same bytes.
// Times are ISO 8601.
// Contract: interface#webhooks, decisions#webhook-requests.
import type { PublishedEntity } from '../../events/entity-change.ts';
import type { Erased, RecordEventType, RecordRow } from '../../events/event.ts';
import { shape } from '../../records/row.ts';

export interface WebhookEvent {
  eventId: string;
  type: RecordEventType;
  tenantId: string;
  /** ISO 8601. */
  at: string;
  row: RecordRow;
  /** Whether it is about an imaginary record. */
  isTest?: boolean;
  /** For the deletion of a record whose values have been erased: only the id is shown. */
  erased?: Erased | null;
}

/** The body as JSON: the record in flat form, with all fields of the entity or with the given fields, and further members. */
export function payloadOf(event: WebhookEvent, entity: PublishedEntity, fields = entity.fields, more = {}): string {
  const { eventId, type, tenantId, at, row, isTest = false, erased = null } = event;
  return JSON.stringify({
    id: `evt_${eventId}`,
    event: type,
    entity: entity.name,
    record_id: `rec_${row.id}`,
    data: erased === null ? shape(row, entity, fields) : { id: row.id },
    timestamp: at,
    tenant_id: `tenant_${tenantId}`,
    ...(isTest ? { test: true } : {}),
    ...(erased === null ? {} : { erased }),
    ...more,
  });
}
