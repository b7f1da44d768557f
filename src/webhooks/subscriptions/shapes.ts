// The shapes of webhook subscriptions in requests and responses. A caller may send back everything that was returned. A secret is never
// returned.
// Contract: interface#subscription, decisions#webhooks-for-others.
import { type Static, Type } from '@sinclair/typebox';
import { RECORD_EVENTS } from '../../events/event.ts';
import { closed, Ignored, nullable, oneOf, optional, Timestamp, Uuid } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { INCLUDES } from '../content.ts';
import { Health, HealthState } from './health.ts';

const { urlMax, secretMax, descriptionMax, keepSecretHoursMax } = LIMITS.webhook;
const { fieldsMax } = LIMITS.entity;
export const EventType = oneOf(RECORD_EVENTS);
const IncludeMember = oneOf(INCLUDES);
export const SubscriptionSchema = Type.Object(
  {
    id: Uuid,
    entity_name: Type.String({ examples: ['task'] }),
    event_types: Type.Array(EventType),
    url: Type.String({ examples: ['https://receiver.example/hooks'] }),
    description: nullable(Type.String()),
    is_active: Type.Boolean(),
    has_secret: Type.Boolean({ description: 'the secret itself is never returned' }),
    role: Type.Optional(Type.String()),
    filters: Type.Optional(Type.String()),
    fields: Type.Optional(Type.Array(Type.String())),
    include: Type.Optional(Type.Array(IncludeMember)),
    secret_previous_until: Type.Optional({ ...Timestamp, description: 'until then the secret before signs too' }),
    disabled_reason: Type.Optional(
      nullable(
        Type.String({ description: 'why the service made it inactive', examples: ['the receiver answered 410 Gone'] }),
      ),
    ),
    health: HealthState,
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { $id: 'WebhookSubscription' },
);
export type Subscription = Static<typeof SubscriptionSchema>;
/** The response for a single subscription. */
export const SubscriptionDetail = Type.Object(
  { ...SubscriptionSchema.properties, health: Health },
  { $id: 'WebhookSubscriptionDetail' },
);

const Members = {
  event_types: Type.Array(EventType, {
    minItems: 1,
    error: `must name one or more of ${RECORD_EVENTS.join(', ')}`,
    examples: [['record.created', 'record.updated']],
  }),
  url: Type.String({
    maxLength: urlMax,
    error: `must be a URL of at most ${urlMax} characters`,
    examples: ['https://receiver.example/hooks'],
  }),
  secret: optional(
    Type.String({
      maxLength: secretMax,
      description: 'signs every request; null or empty for none',
      examples: ['whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlcg=='],
    }),
  ),
  description: optional(Type.String({ maxLength: descriptionMax })),
  is_active: Type.Optional(Type.Boolean()),
  role: optional(
    Type.String({ description: 'sends only what this role may see, when it is sent', examples: ['partner'] }),
  ),
  filters: optional(
    Type.String({
      description: 'sends only changes of records that match this condition after the change, or before a deletion',
      examples: ['stage = "won"'],
    }),
  ),
  fields: optional(
    Type.Array(Type.String(), {
      maxItems: fieldsMax,
      description: 'the keys of the fields that are sent',
      examples: [['title']],
    }),
  ),
  include: optional(
    Type.Array(IncludeMember, {
      description:
        '`previous`: the record before an update, as the subscription shows it; `cursor`: the place in the feed after the change',
      examples: [['previous', 'cursor']],
    }),
  ),
};
const EntityName = Type.String({
  description: 'an entity, or `*` for all of them, also later ones',
  examples: ['task'],
});
export const NewSubscription = closed({ entity_name: EntityName, ...Members });
export type NewSubscription = Static<typeof NewSubscription>;
/** Omitted members keep their value; null clears it. A subscription may be sent back as it was returned. */
export const SubscriptionChange = Type.Partial(
  closed({
    entity_name: Type.String({ error: 'cannot be changed', examples: ['task'] }),
    ...Members,
    keepPreviousForHours: Type.Integer({
      minimum: 0,
      maximum: keepSecretHoursMax,
      error: `must be a whole number from 0 to ${keepSecretHoursMax}`,
      description: 'with a new secret: the one before signs too for so long',
      examples: [24],
    }),
    secret_previous_until: Ignored,
    id: Ignored,
    has_secret: Ignored,
    disabled_reason: Ignored,
    health: Ignored,
    created_at: Ignored,
    updated_at: Ignored,
  }),
);
export type SubscriptionChange = Static<typeof SubscriptionChange>;
