-- What webhook subscriptions send besides the record, and replays since a cursor of the feed.

-- `previous`, `cursor` or both; null for neither.
alter table platform.webhook_subscriptions add column include text[];

-- The position in the feed after which the replayed changes come; null for a span of time.
alter table platform.webhook_replays add column since jsonb;
