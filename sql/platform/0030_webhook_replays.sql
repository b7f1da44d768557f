-- Replays under way: deliveries of a subscription that are sent again, a part at a time, behind those of new changes.

create table platform.webhook_replays (
  subscription_id uuid constraint webhook_replays_pkey primary key,
  tenant_id uuid not null,
  -- Of the changes; `to_at` is not part of the span.
  from_at timestamptz(3) not null,
  to_at timestamptz(3) not null,
  is_of_failed boolean not null,
  -- The last delivery that was queued, and the last one of the replay.
  position uuid not null,
  last_id uuid not null,
  created_at timestamptz(3) not null default now()
);

create or replace function platform.drop_deliveries() returns trigger language plpgsql as $$
begin
  delete from platform.webhook_deliveries where subscription_id = old.id;
  delete from platform.webhook_health where subscription_id = old.id;
  delete from platform.webhook_replays where subscription_id = old.id;
  return null;
end
$$;
