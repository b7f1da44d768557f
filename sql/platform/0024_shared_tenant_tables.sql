-- What needs no table of each tenant: counters and views. A Postgres backend caches the catalog of every table that it has
-- used, with its indexes and TOAST table, so many tenants with few tables each cost less than many with more. A statement
-- names its tenant. The tenants' own migration moves the rows here.

-- Records (n), bytes of their values as JSON text, and writes (v) of each entity, spread over slots so that concurrent
-- writers seldom lock the same row. Slot 0 says whether the bytes of records that are older than the column are measured.
create table platform.entity_counts (
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  entity_id uuid not null,
  slot int not null,
  n bigint not null default 0,
  v bigint not null default 0,
  bytes bigint not null default 0,
  is_measured boolean not null default true,
  constraint entity_counts_pkey primary key (tenant_id, entity_id, slot)
) with (fillfactor = 40);

-- Entities restricted by a fixed condition.
create table platform.views (
  id uuid constraint views_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  slug text not null,
  entity_id uuid not null,
  name text not null,
  description text,
  filter_dsl jsonb not null default '{"validate": []}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  constraint views_slug_key unique (tenant_id, slug)
);
