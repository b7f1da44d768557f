// A webhook request: its body and its signed headers. The body is rendered once, and every attempt sends the same
// bytes. Signature timestamps are seconds.
// Contract: interface#webhooks, decisions#webhook-requests.
import { createHmac } from 'node:crypto';
import type { Erased, RecordEventType, RecordRow } from '../../events/event.ts';
import type { PublishedEntity } from '../../events/publication.ts';
import { shape } from '../../records/row.ts';

export interface WebhookEvent {
  eventId: string;
  type: RecordEventType;
  tenantId: string;
  /** ISO 8601. */
  at: string;
  row: RecordRow;
  /** About an imaginary record. */
  isTest?: boolean;
  /** Of the deletion of a record whose values have been erased: it shows only the id. */
  erased?: Erased | null;
}

/** The body as JSON, with the record in flat form: with all fields of the entity, or with the given ones, and further members. */
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

export interface Attempt {
  deliveryId: string;
  eventId: string;
  type: string;
  /** 1 for the first. */
  number: number;
  body: string;
  /** The newest first; none for a subscription without a secret. */
  secrets: readonly string[];
  isTest: boolean;
}

/** Signed when the subscription has a secret; while it is being changed, by the Standard Webhooks header with both. */
export function requestHeaders(attempt: Attempt, nowMs = Date.now()): Record<string, string> {
  const { deliveryId, type, number, body, secrets, isTest } = attempt;
  return {
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    'User-Agent': 'tenant-data-service-webhooks/1',
    'X-Svc-Event': type,
    'X-Svc-Delivery': deliveryId,
    'X-Svc-Attempt': String(number),
    ...(isTest ? { 'X-Svc-Test': 'true' } : {}),
    ...(secrets.length === 0 ? {} : signatures(attempt, Math.floor(nowMs / 1_000))),
  };
}

function signatures({ eventId, body, secrets }: Attempt, timestamp: number): Record<string, string> {
  const id = `evt_${eventId}`;
  const signed = secrets.map((secret) => {
    const hmac = createHmac('sha256', standardKey(secret)).update(`${id}.${timestamp}.`);
    return `v1,${hmac.update(body).digest('base64')}`;
  });
  return {
    'X-Svc-Signature': createHmac('sha256', secrets[0] as string)
      .update(body)
      .digest('hex'),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signed.join(' '),
  };
}

/** The key of the Standard Webhooks signature: base64 after `whsec_`, otherwise the secret's bytes. */
function standardKey(secret: string): Buffer {
  return secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret);
}
