-- Webhook subscriptions that can be handed to somebody else: as a role sees the records, of some records, with some fields,
-- of all entities; and secrets that overlap while they are changed.

alter table platform.webhook_subscriptions
  -- A role's name.
  add column role text,
  -- A condition as text.
  add column filters text,
  -- The ids of the fields that are sent; null for all.
  add column field_ids uuid[],
  -- Whether some changes are not for this subscription. Its deliveries are made when the changes have been judged; until then
  -- one row of webhook_deliveries stands for all such subscriptions of an entity, with the entity's id as its subscription.
  add column is_judged boolean not null generated always as (role is not null or filters is not null) stored,
  -- Signs too, until then.
  add column secret_previous text,
  add column secret_previous_until timestamptz(3);

-- A subscription to all entities has the id 0 in place of an entity's.

create index webhook_subscriptions_judged_idx on platform.webhook_subscriptions (tenant_id) where is_judged;
