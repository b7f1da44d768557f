-- Webhook subscriptions and their deliveries. A delivery is born in the statement that makes the
-- change, one for each subscription that matches then. It is pending until it is delivered or given
-- up; a claimed one is leased: claim_id says to whom, next_at until when. What is sent is frozen in
-- `body` when it is first claimed. Nothing refers to subscriptions by a foreign key: its check would
-- make writers of one entity meet on the subscription's row.

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
  -- Attempts made before it was last sent anew by hand: those do not count against the retries.
  attempts_before int not null default 0,
  http_status int,
  error text,
  claim_id uuid,
  next_at timestamptz not null default now(),
  created_at timestamptz(3) not null default now(),
  completed_at timestamptz(3),
  -- Also the order in which they are listed. Every index costs each delivery twice, when it is born and when it ends.
  constraint webhook_deliveries_pkey primary key (subscription_id, id)
) with (fillfactor = 80);

-- What is due for a subscription, and when something will be.
create index webhook_deliveries_due_idx on platform.webhook_deliveries (subscription_id, next_at)
  where status = 'pending';

-- Events of one record leave in order: is there an earlier one, or another one on its way?
create index webhook_deliveries_order_idx on platform.webhook_deliveries (subscription_id, record_id, event_seq)
  where status = 'pending';

-- What is on its way.
create index webhook_deliveries_claimed_idx on platform.webhook_deliveries (tenant_id, subscription_id)
  where claim_id is not null;

-- Ids rise with time, and so do rows: what is too old to be kept lies together.
create index webhook_deliveries_age_idx on platform.webhook_deliveries using brin (id) with (autosummarize = on);

-- However a subscription goes, also with its entity or its tenant, its deliveries go with it.
create function platform.drop_deliveries() returns trigger language plpgsql as $$
begin
  delete from platform.webhook_deliveries where subscription_id = old.id;
  return null;
end
$$;

create trigger webhook_subscriptions_deleted after delete on platform.webhook_subscriptions
  for each row execute function platform.drop_deliveries();
