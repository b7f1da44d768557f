-- The outbox: one row per committed change, inserted by the statement that makes the change, and the
-- state of the relay that copies it to the live streams. Partitioned by day, so old days are dropped
-- instead of deleted.

create sequence platform.events_seq as bigint;

-- `seq` follows the order of insertion; for one record that is the order of its changes. `data` is the
-- record as stored (values by slot) after the change, or before a deletion; `old` is the record before
-- an update, where a rule needs it. Events that are not about records carry `payload` instead.
create table platform.events (
  seq bigint not null default nextval('platform.events_seq'),
  id uuid not null,
  at timestamptz(3) not null default now(),
  xid xid8 not null default pg_current_xact_id(),
  tenant_id uuid not null,
  entity_id uuid,
  entity text,
  record_id uuid,
  type text not null,
  version bigint,
  data jsonb,
  old jsonb,
  payload jsonb,
  created_at timestamptz(3),
  updated_at timestamptz(3),
  created_by text,
  updated_by text,
  actor text,
  triggered_by text not null,
  depth int not null default 0,
  root_event_id uuid
) partition by range (at);

alter sequence platform.events_seq owned by platform.events.seq;

create index events_seq_idx on platform.events (seq);

create table platform.events_default partition of platform.events default;

-- One row: how far the outbox is relayed, and the process that relays it. Locking the row ensures
-- that only one process relays.
create table platform.relay (
  id int constraint relay_pkey primary key constraint relay_single check (id = 1),
  leader uuid,
  watermark bigint not null default 0,
  heartbeat_at timestamptz not null default now()
);

insert into platform.relay (id) values (1);

-- Which entities the open streams of each process subscribe to; the relay skips all other events. A
-- stream inserts its rows before it takes the snapshot after which it shows events, so a relay that sees
-- such an event also sees the rows.
create table platform.stream_processes (
  process_id uuid constraint stream_processes_pkey primary key,
  heartbeat_at timestamptz not null default clock_timestamp()
);

-- `entity` is a name; '' is everything of the tenant.
create table platform.stream_subscriptions (
  tenant_id uuid not null,
  entity text not null,
  process_id uuid not null
    constraint stream_subscriptions_process_fkey references platform.stream_processes on delete cascade,
  constraint stream_subscriptions_pkey primary key (tenant_id, entity, process_id)
);

create index stream_subscriptions_process_idx on platform.stream_subscriptions (process_id);
