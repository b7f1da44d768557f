-- What tenants use by UTC day, and what they may use. Each process adds what it has counted every few seconds.

alter table platform.tenants
  add column quotas jsonb not null default '{}',
  -- False while the bytes of records that are older than their counters are not counted yet.
  add column is_storage_measured boolean not null default false;
alter table platform.tenants alter column is_storage_measured set default true;

-- Durations are milliseconds. `claimed_deliveries` counts against a quota, in the transaction of the claim.
create table platform.usage_days (
  tenant_id uuid not null constraint usage_days_tenant_fkey references platform.tenants (id) on delete cascade,
  day date not null,
  requests bigint not null default 0,
  reads bigint not null default 0,
  writes bigint not null default 0,
  events bigint not null default 0,
  deliveries bigint not null default 0,
  stream_ms bigint not null default 0,
  socket_ms bigint not null default 0,
  sent_bytes bigint not null default 0,
  claimed_deliveries bigint not null default 0,
  constraint usage_days_pkey primary key (tenant_id, day)
) with (fillfactor = 50);

create index usage_days_age_idx on platform.usage_days (day);

-- The warnings sent: one a day for each quota of a tenant.
create table platform.quota_warnings (
  tenant_id uuid not null constraint quota_warnings_tenant_fkey references platform.tenants (id) on delete cascade,
  day date not null,
  quota text not null,
  constraint quota_warnings_pkey primary key (tenant_id, day, quota)
);

create index quota_warnings_age_idx on platform.quota_warnings (day);
