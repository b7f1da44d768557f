-- How subscriptions fare, and each attempt of a delivery.

-- Why the service has made a subscription inactive; null when a person did, or nobody.
alter table platform.webhook_subscriptions add column disabled_reason text;

-- The latest attempts, each as [milliseconds since 1970, duration in ms, HTTP status, error, start of the response].
alter table platform.webhook_deliveries add column attempts jsonb;

-- Few deliveries fail, so that this index costs the others nothing.
create index webhook_deliveries_failed_idx on platform.webhook_deliveries (subscription_id, id) where status = 'failed';

-- A row of its own, because claims lock the subscription's. `failing_since`: no attempt has succeeded since then; null while
-- the last one did. The times of successes are stored at intervals. No foreign key: its check would wait for the deletion
-- of a subscription.
create table platform.webhook_health (
  subscription_id uuid constraint webhook_health_pkey primary key,
  failing_since timestamptz(3),
  last_success_at timestamptz(3),
  last_failure_at timestamptz(3),
  last_error text
) with (fillfactor = 50);

create or replace function platform.drop_deliveries() returns trigger language plpgsql as $$
begin
  delete from platform.webhook_deliveries where subscription_id = old.id;
  delete from platform.webhook_health where subscription_id = old.id;
  return null;
end
$$;
