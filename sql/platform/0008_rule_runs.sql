-- After rules that are still to act: one row for each rule that a change has started, written by the
-- statement that makes the change and deleted in the transaction of the rule's own effect. The record
-- is as it stood after the change (before it, for a deletion); `depth` is the change's own.

create table platform.rule_runs (
  position bigint generated always as identity constraint rule_runs_pkey primary key,
  event_id uuid not null,
  rule_id uuid not null,
  tenant_id uuid not null,
  entity_id uuid not null,
  record_id uuid not null,
  version bigint not null,
  data jsonb not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  created_by text,
  updated_by text,
  actor text,
  depth int not null,
  root_event_id uuid not null,
  attempts int not null default 0,
  next_at timestamptz(3) not null default now(),
  constraint rule_runs_once_key unique (event_id, rule_id)
);

create index rule_runs_record_idx on platform.rule_runs (record_id, position);
