-- The outbox: one row per committed change, written by the very statement that makes the change.
-- Partitioned by day, so that old days are dropped rather than deleted. `data` is the record in its
-- stored form (values by slot), after the change or, for a deletion, before it; what a reader may
-- see of it is decided when it is read. `old` is the form before an update where a rule may ask.

create table platform.events (
  id uuid not null,
  at timestamptz(3) not null default now(),
  xid xid8 not null default pg_current_xact_id(),
  tenant_id uuid not null,
  entity_id uuid not null,
  entity text not null,
  record_id uuid not null,
  type text not null,
  version bigint not null,
  data jsonb not null,
  old jsonb,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  created_by text,
  updated_by text,
  actor text,
  triggered_by text not null,
  depth int not null default 0,
  root_event_id uuid
) partition by range (at);

create index events_xid_idx on platform.events (xid, id);

create table platform.events_default partition of platform.events default;
