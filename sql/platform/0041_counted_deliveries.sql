-- Whether the quota of deliveries in a day has counted the delivery: one whose process died before it had a result is claimed for its
-- first attempt again, and counts once.
alter table platform.webhook_deliveries add column is_counted boolean not null default false;
