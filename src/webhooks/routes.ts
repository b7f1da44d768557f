// The routes of webhook subscriptions and of the log of their deliveries, all for tenant admins.
// Bodies are checked for their shapes here, for what they say by the operations.
// Contract: interface#subscriptions, decisions#deliveries.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { RECORD_EVENTS } from '../events/event.ts';
import { guard } from '../http/guard.ts';
import { closed, Deleted, describe, Idle, nullable, open, Timestamp, Uuid } from '../http/openapi.ts';
import { integerParameter, numberFrom } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import { listDeliveries, redeliver, sendTest } from './subscriptions/delivery-log.ts';
import {
  createSubscription,
  deleteSubscription,
  listSubscriptions,
  updateSubscription,
} from './subscriptions/subscriptions.ts';

const { urlMax, secretMax, descriptionMax, listDefault, listMax } = LIMITS.webhook;

const EventType = Type.Union(RECORD_EVENTS.map((type) => Type.Literal(type)));
export const SubscriptionSchema = Type.Object(
  {
    id: Uuid,
    entity_name: Type.String({ examples: ['task'] }),
    event_types: Type.Array(EventType),
    url: Type.String({ examples: ['https://receiver.example/hooks'] }),
    description: nullable(Type.String()),
    is_active: Type.Boolean(),
    has_secret: Type.Boolean({ description: 'the secret itself is never shown' }),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { $id: 'WebhookSubscription' },
);
const DeliverySchema = Type.Object(
  {
    id: Uuid,
    event_id: Type.String({
      description: 'the `id` in what is sent',
      examples: ['evt_01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'],
    }),
    event: EventType,
    status: Type.Union([Type.Literal('pending'), Type.Literal('delivered'), Type.Literal('failed')]),
    http_status: nullable(Type.Integer()),
    attempt_count: Type.Integer({ minimum: 0 }),
    error: nullable(Type.String({ description: 'why the last attempt failed', examples: ['timeout'] })),
    created_at: Timestamp,
    next_attempt_at: nullable(Timestamp),
    completed_at: nullable(Timestamp),
  },
  { $id: 'WebhookDelivery' },
);

const eventTypes = t.Array(t.String(), {
  error: 'must be an array of event types',
  description: RECORD_EVENTS.join(', '),
  examples: [['record.created', 'record.updated']],
});
const url = t.String({
  maxLength: urlMax,
  error: `must be a URL of at most ${urlMax} characters`,
  examples: ['https://receiver.example/hooks'],
});
const Changeable = {
  secret: t.Optional(
    t.Union([t.String({ maxLength: secretMax }), t.Null()], {
      error: `must be a text of at most ${secretMax} characters`,
      description: 'signs every request; null or empty for none',
      examples: ['whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlcg=='],
    }),
  ),
  description: t.Optional(
    t.Union([t.String({ maxLength: descriptionMax }), t.Null()], {
      error: `must be a text of at most ${descriptionMax} characters`,
    }),
  ),
  is_active: t.Optional(t.Boolean({ error: 'must be true or false' })),
};

const TAG = 'Webhooks';
const SUBSCRIPTIONS = '/api/webhooks/subscriptions';
const SUBSCRIPTION = '/api/webhooks/subscriptions/:id';
const Params = t.Object({ id: t.String() });

const LIST = {
  access: 'admin',
  query: open({ entity: t.Optional(t.String({ description: 'only those of this entity', examples: ['task'] })) }),
  detail: describe({
    id: 'listWebhookSubscriptions',
    tag: TAG,
    summary: 'List webhook subscriptions',
    ok: [200, Type.Array(SubscriptionSchema)],
  }),
} as const;

const CREATE = {
  access: 'admin',
  json: true,
  body: closed({
    entity_name: t.String({ error: 'must be the name of an entity', examples: ['task'] }),
    event_types: eventTypes,
    url,
    ...Changeable,
  }),
  detail: describe({
    id: 'createWebhookSubscription',
    tag: TAG,
    summary: 'Subscribe a URL to changes of an entity',
    description: 'Every change from now on is sent as a POST. The URL must not lead to a private address.',
    ok: [201, SubscriptionSchema],
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
} as const;

const UPDATE = {
  access: 'admin',
  json: true,
  params: Params,
  body: closed({
    entity_name: t.Optional(t.String({ error: 'cannot be changed', description: 'stays', examples: ['task'] })),
    event_types: t.Optional(eventTypes),
    url: t.Optional(url),
    ...Changeable,
    // A subscription may be sent back as it was answered.
    id: Idle,
    has_secret: Idle,
    created_at: Idle,
    updated_at: Idle,
  }),
  detail: describe({
    id: 'updateWebhookSubscription',
    tag: TAG,
    summary: 'Change a webhook subscription',
    description: 'URL, secret and activity also hold for deliveries that are pending; inactive, those wait.',
    ok: [200, SubscriptionSchema],
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
} as const;

const DELETE = {
  access: 'admin',
  params: Params,
  detail: describe({
    id: 'deleteWebhookSubscription',
    tag: TAG,
    summary: 'Delete a webhook subscription and its deliveries',
    ok: [200, Deleted],
    errors: ['NOT_FOUND'],
  }),
} as const;

const DELIVERIES = {
  access: 'admin',
  params: Params,
  query: open({ limit: t.Optional(integerParameter(1, listMax, { description: 'how many', default: listDefault })) }),
  detail: describe({
    id: 'listWebhookDeliveries',
    tag: TAG,
    summary: 'List the latest deliveries of a subscription, newest first',
    ok: [200, Type.Array(DeliverySchema)],
    errors: ['NOT_FOUND'],
  }),
} as const;

const TEST = {
  access: 'admin',
  params: Params,
  detail: describe({
    id: 'testWebhookSubscription',
    tag: TAG,
    summary: 'Send an example to a subscription’s URL',
    description: 'Answers the delivery; how it went stands in the list of deliveries.',
    ok: [201, DeliverySchema],
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
} as const;

const REDELIVER = {
  access: 'admin',
  params: Params,
  detail: describe({
    id: 'redeliverWebhook',
    tag: TAG,
    summary: 'Send a delivery again',
    ok: [200, DeliverySchema],
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
} as const;

export function webhookRoutes(app: App) {
  return new Elysia({ name: 'webhooks' })
    .use(guard(app))
    .get(SUBSCRIPTIONS, async ({ caller, query }) => ok(await listSubscriptions(app, caller, query.entity)), LIST)
    .post(SUBSCRIPTIONS, async ({ caller, body }) => created(await createSubscription(app, caller, body)), CREATE)
    .put(
      SUBSCRIPTION,
      async ({ caller, params, body }) => ok(await updateSubscription(app, caller, params.id, body)),
      UPDATE,
    )
    .delete(
      SUBSCRIPTION,
      async ({ caller, params }) => {
        await deleteSubscription(app, caller, params.id);
        return ok({ id: params.id.toLowerCase(), deleted: true });
      },
      DELETE,
    )
    .get(
      `${SUBSCRIPTION}/deliveries`,
      async ({ caller, params, query }) =>
        ok(await listDeliveries(app, caller, params.id, numberFrom(query.limit) ?? listDefault)),
      DELIVERIES,
    )
    .post(`${SUBSCRIPTION}/test`, async ({ caller, params }) => created(await sendTest(app, caller, params.id)), TEST)
    .post(
      '/api/webhooks/deliveries/:id/redeliver',
      async ({ caller, params }) => ok(await redeliver(app, caller, params.id)),
      REDELIVER,
    );
}
