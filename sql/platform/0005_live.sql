-- What the live channels need: a number for each event in the order of its insertion (for one record,
-- that of its changes), events that are not of records, and the relay's place.

create sequence platform.events_seq as bigint;

alter table platform.events
  add column seq bigint not null default nextval('platform.events_seq'),
  add column payload jsonb,
  alter column entity_id drop not null,
  alter column entity drop not null,
  alter column record_id drop not null,
  alter column version drop not null,
  alter column data drop not null,
  alter column created_at drop not null,
  alter column updated_at drop not null;

alter sequence platform.events_seq owned by platform.events.seq;

create index events_seq_idx on platform.events (seq);

drop index platform.events_xid_idx;

-- One row: up to where events have been relayed, and by whom. Its lock makes the relay a single one.
create table platform.relay (
  id int constraint relay_pkey primary key constraint relay_single check (id = 1),
  holder uuid,
  watermark bigint not null default 0,
  touched_at timestamptz not null default now()
);

insert into platform.relay (id) values (1);
