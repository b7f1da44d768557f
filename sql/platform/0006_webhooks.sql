-- Webhook subscriptions and their deliveries. A delivery is inserted by the statement that makes the
-- change, one for each subscription that matches at that time. It is pending until it has been
-- delivered or has failed. A claim is a lease: `claim_id` names its holder, `next_at` its end. `body` is fixed at the
-- first claim. No foreign key points to subscriptions: its check would make all writers of an entity
-- lock the subscription's row.

create table platform.webhook_subscriptions (
  id uuid constraint webhook_subscriptions_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  entity_id uuid not null,
  entity text not null,
  event_types text[] not null,
  url text not null,
  secret text,
  description text,
  is_active boolean not null default true,
  created_by text,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  constraint webhook_subscriptions_key unique (tenant_id, entity_id, url, event_types)
);

create index webhook_subscriptions_active_idx on platform.webhook_subscriptions (entity_id) where is_active;

create table platform.webhook_deliveries (
  id uuid not null default platform.uuidv7(),
  subscription_id uuid not null,
  tenant_id uuid not null,
  event_id uuid not null,
  event_seq bigint not null,
  event_at timestamptz(3) not null,
  record_id uuid not null,
  type text not null,
  status text not null default 'pending'
    constraint webhook_deliveries_status_check check (status in ('pending', 'delivered', 'failed')),
  body text,
  attempt_count int not null default 0,
  -- Attempts before the last manual redelivery, which do not count against the retries.
  attempts_before int not null default 0,
  http_status int,
  error text,
  claim_id uuid,
  next_at timestamptz not null default now(),
  created_at timestamptz(3) not null default now(),
  completed_at timestamptz(3),
  -- Also serves the list of deliveries, which is in this order. Each index costs two writes per delivery: one on
  -- insert, one on completion.
  constraint webhook_deliveries_pkey primary key (subscription_id, id)
) with (fillfactor = 80);

-- Due deliveries of a subscription, and the next due time.
create index webhook_deliveries_due_idx on platform.webhook_deliveries (subscription_id, next_at)
  where status = 'pending';

-- Finds an earlier or claimed delivery of a record: deliveries of one record are sent in order.
create index webhook_deliveries_order_idx on platform.webhook_deliveries (subscription_id, record_id, event_seq)
  where status = 'pending';

-- Deliveries in flight.
create index webhook_deliveries_claimed_idx on platform.webhook_deliveries (tenant_id, subscription_id)
  where claim_id is not null;

-- Ids grow with time, and rows are appended in that order: expired rows are adjacent.
create index webhook_deliveries_age_idx on platform.webhook_deliveries using brin (id) with (autosummarize = on);

-- Deletes deliveries with their subscription, also when the entity or tenant is deleted.
create function platform.drop_deliveries() returns trigger language plpgsql as $$
begin
  delete from platform.webhook_deliveries where subscription_id = old.id;
  return null;
end
$$;

create trigger webhook_subscriptions_deleted after delete on platform.webhook_subscriptions
  for each row execute function platform.drop_deliveries();
