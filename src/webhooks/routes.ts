// The routes of webhook subscriptions and of their delivery log, all for tenant admins.
// Failures: 400 with every problem, 404, 409.
// Contract: interface#subscriptions, decisions#deliveries.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { RECORD_EVENTS } from '../events/event.ts';
import { okList } from '../http/bounded-response.ts';
import { guard } from '../http/guard.ts';
import { mayTakeLong } from '../http/own-idle.ts';
import { integerParameter, parameters } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted, oneOf, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import {
  DeliveryDetail,
  DeliverySchema,
  listDeliveries,
  readDelivery,
  redeliver,
  sendTest,
} from './subscriptions/delivery-log.ts';
import { Replay, Replayed, startReplay } from './subscriptions/replay.ts';
import { NewSubscription, SubscriptionChange, SubscriptionDetail, SubscriptionSchema } from './subscriptions/shapes.ts';
import {
  createSubscription,
  deleteSubscription,
  listSubscriptions,
  readSubscription,
  updateSubscription,
} from './subscriptions/subscriptions.ts';

const { listDefault, listMax } = LIMITS.webhook;
const SUBSCRIPTIONS = '/api/webhooks/subscriptions';
const SUBSCRIPTION = '/api/webhooks/subscriptions/:id';
const common = { tag: 'Webhooks', access: 'admin' } as const;

const LIST = route({
  ...common,
  id: 'listWebhookSubscriptions',
  summary: 'List webhook subscriptions',
  query: parameters({
    entity: Type.Optional(Type.String({ description: 'only subscriptions to this entity', examples: ['companies'] })),
  }),
  ok: [200, Type.Array(SubscriptionSchema)],
});
const CREATE = route({
  ...common,
  id: 'createWebhookSubscription',
  summary: 'Subscribe a URL to changes of an entity',
  description: 'Every change from now on is sent as a POST. The URL must not lead to a private address.',
  body: NewSubscription,
  example: {
    entity_name: 'companies',
    event_types: ['record.created', 'record.updated'],
    url: 'https://receiver.example/hooks',
    secret: 'whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlcg==',
    description: 'the shop',
  },
  ok: [201, SubscriptionSchema],
  errors: ['NOT_FOUND', 'CONFLICT'],
});
const READ = route({
  ...common,
  id: 'readWebhookSubscription',
  summary: 'Read a webhook subscription and how it fares',
  description: 'Reads the counts of pending and failed deliveries, up to 100,000 each.',
  ok: [200, SubscriptionDetail],
});
const UPDATE = route({
  ...common,
  id: 'updateWebhookSubscription',
  summary: 'Change a webhook subscription',
  description: 'Pending deliveries use the new URL and secret; while the subscription is inactive, they wait.',
  body: SubscriptionChange,
  example: { event_types: ['record.deleted'], description: 'the shop, of deletions', is_active: true },
  ok: [200, SubscriptionSchema],
  errors: ['CONFLICT'],
});
const DELETE = route({
  ...common,
  id: 'deleteWebhookSubscription',
  summary: 'Delete a webhook subscription and its deliveries',
  ok: [200, Deleted],
});
const DELIVERIES = route({
  ...common,
  id: 'listWebhookDeliveries',
  summary: 'List the latest deliveries of a subscription, newest first',
  query: parameters({
    status: Type.Optional(oneOf(['pending', 'delivered', 'failed'], { description: 'only those with this status' })),
    event: Type.Optional(oneOf(RECORD_EVENTS, { description: 'only those of this type' })),
    before: Type.Optional(
      Type.String({ description: 'the id of a delivery: only older ones', examples: Uuid.examples as string[] }),
    ),
    limit: Type.Optional(
      integerParameter(1, listMax, { description: 'maximum number of deliveries', default: listDefault }),
    ),
  }),
  ok: [200, Type.Array(DeliverySchema)],
});
const DELIVERY = route({
  ...common,
  id: 'readWebhookDelivery',
  summary: 'Read a delivery with its body and attempts',
  ok: [200, DeliveryDetail],
});
const TEST = route({
  ...common,
  id: 'testWebhookSubscription',
  summary: 'Send an example to a subscription’s URL',
  description: 'Returns the delivery; the list of deliveries shows its outcome.',
  ok: [201, DeliverySchema],
  errors: ['CONFLICT'],
});
const REPLAY = route({
  ...common,
  id: 'replayWebhookSubscription',
  summary: 'Send deliveries since a time or a cursor again',
  description:
    'In the order of the changes and with the same event ids, behind deliveries of new changes. One replay of a subscription at a time.',
  body: Replay,
  example: { from: '2026-01-31T00:00:00.000Z', to: '2026-02-01T00:00:00.000Z', status: 'failed' },
  ok: [200, Replayed],
  errors: ['CONFLICT'],
});
const REDELIVER = route({
  ...common,
  id: 'redeliverWebhook',
  summary: 'Send a delivery again',
  ok: [200, DeliverySchema],
  errors: ['CONFLICT'],
});

export function webhookRoutes(app: App) {
  return new Elysia({ name: 'webhooks' })
    .use(guard(app))
    .get(SUBSCRIPTIONS, async ({ caller, query }) => okList(await listSubscriptions(app, caller, query.entity)), LIST)
    .post(SUBSCRIPTIONS, async ({ caller, body }) => created(await createSubscription(app, caller, body)), CREATE)
    .get(SUBSCRIPTION, async ({ caller, params }) => ok(await readSubscription(app, caller, params.id)), READ)
    .put(
      SUBSCRIPTION,
      async ({ caller, params, body }) => ok(await updateSubscription(app, caller, params.id, body)),
      UPDATE,
    )
    .delete(
      SUBSCRIPTION,
      async ({ caller, params, request }) => {
        await mayTakeLong(app, request, () => deleteSubscription(app, caller, params.id));
        return ok({ id: params.id.toLowerCase(), deleted: true });
      },
      DELETE,
    )
    .get(
      `${SUBSCRIPTION}/deliveries`,
      async ({ caller, params, query }) =>
        okList(await listDeliveries(app, caller, params.id, { ...query, limit: query.limit ?? listDefault })),
      DELIVERIES,
    )
    .get(
      '/api/webhooks/deliveries/:id',
      async ({ caller, params }) => ok(await readDelivery(app, caller, params.id)),
      DELIVERY,
    )
    .post(`${SUBSCRIPTION}/test`, async ({ caller, params }) => created(await sendTest(app, caller, params.id)), TEST)
    .post(
      `${SUBSCRIPTION}/replay`,
      async ({ caller, params, body }) => ok(await startReplay(app, caller, params.id, body)),
      REPLAY,
    )
    .post(
      '/api/webhooks/deliveries/:id/redeliver',
      async ({ caller, params }) => ok(await redeliver(app, caller, params.id)),
      REDELIVER,
    );
}
