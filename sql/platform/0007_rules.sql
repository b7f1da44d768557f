-- Pending runs of `after` rules: one row for each rule started by a change, inserted by the statement that
-- makes the change and deleted in the transaction of the rule's effect. `data` is the record after the
-- change (before it, for a deletion); `depth` is that of the change.

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

-- Finds the next run of each tenant: tenants are served round-robin.
create index rule_runs_tenant_idx on platform.rule_runs (tenant_id, position);
