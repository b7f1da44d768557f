// The `webhooks` of the API document: one per record event, with the body, the headers and the meaning of the
// receiver's response.
// Contract: interface#webhooks, decisions#webhook-requests.

import { Type } from '@sinclair/typebox';
import { RECORD_EVENTS } from '../events/event.ts';
import { Timestamp, Uuid } from '../http/schemas.ts';
import { RecordSchema } from '../records/record.ts';
import { exampleOf } from './example.ts';
import type { JsonSchema, Schemas } from './schema.ts';

const [ID = ''] = Uuid.examples as string[];

/** An id in the payload: `<prefix>_` and a UUID. */
const prefixed = (prefix: string, of: string) =>
  Type.String({ pattern: `^${prefix}_[0-9a-f-]{36}$`, description: of, examples: [`${prefix}_${ID}`] });

const Payload = Type.Object(
  {
    id: prefixed('evt', 'the event; the same on every attempt'),
    event: Type.Union(RECORD_EVENTS.map((type) => Type.Literal(type))),
    entity: Type.String({ description: 'the name of the entity', examples: ['companies'] }),
    record_id: prefixed('rec', 'the record'),
    data: RecordSchema,
    timestamp: Timestamp,
    tenant_id: prefixed('tenant', 'the tenant'),
  },
  { $id: 'WebhookPayload' },
);

const HEADERS: readonly [name: string, required: boolean, description: string, example: string][] = [
  ['X-Svc-Event', true, 'the event type', 'record.created'],
  ['X-Svc-Delivery', true, 'the id of the delivery, as in the list of deliveries', ID],
  ['X-Svc-Attempt', true, 'which attempt this is, from 1', '1'],
  ['X-Svc-Signature', false, 'with a secret: lowercase hex HMAC-SHA256 of the body, the secret as key', '0'.repeat(64)],
  ['webhook-id', false, 'with a secret: the id of the event, as in Standard Webhooks', `evt_${ID}`],
  ['webhook-timestamp', false, 'with a secret: when it was sent, in seconds since 1970', '1772357400'],
  [
    'webhook-signature',
    false,
    'with a secret: `v1,` and the base64 HMAC-SHA256 of id, timestamp and body; two values while the secret is being changed',
    'v1,...',
  ],
];

/** The `webhooks` member of the document, by event type. */
export function webhooksOf(schemas: Schemas): JsonSchema {
  const schema = schemas.of(Payload);
  const example = exampleOf(schema, schemas.components) as JsonSchema;
  const parameters = HEADERS.map(([name, required, description, value]) => ({
    name,
    in: 'header',
    required,
    description,
    schema: { type: 'string' },
    example: value,
  }));
  return Object.fromEntries(
    RECORD_EVENTS.map((event) => {
      const [, verb = ''] = event.split('.');
      const post = {
        operationId: `onRecord${verb.charAt(0).toUpperCase()}${verb.slice(1)}`,
        tags: ['Webhooks'],
        summary: `A record was ${verb}`,
        description: `Sent to the subscriptions of the entity that name \`${event}\`, at least once. A test has \`"test": true\` and the header \`X-Svc-Test: true\` besides; a subscription with a role or fields sends fewer fields.`,
        security: [],
        parameters,
        requestBody: { required: true, content: { 'application/json': { schema, example: { ...example, event } } } },
        responses: {
          '2XX': { description: 'Received. The receiver must respond within 30 seconds.' },
          '4XX': { description: 'Not received: retried at most five times.' },
        },
      };
      return [event, { post }];
    }),
  );
}
