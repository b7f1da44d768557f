-- Tenants. Each has its own Postgres schema, created by the files of sql/tenant.

-- A UUID version 7 (RFC 9562) for rows inserted by SQL files.
create function platform.uuidv7() returns uuid language sql volatile as $$
  select encode(
    set_bit(set_bit(
      overlay(
        uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
        from 1 for 6
      ), 52, 1), 53, 1), 'hex')::uuid
$$;

create table platform.tenants (
  id uuid constraint tenants_pkey primary key,
  slug text not null constraint tenants_slug_key unique,
  name text not null,
  status text not null default 'active' constraint tenants_status_check check (status in ('active', 'suspended')),
  settings jsonb not null default '{}',
  -- Number of the last file of sql/tenant applied to the tenant's schema.
  schema_version int not null default 0,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create unique index tenants_custom_domain_key
  on platform.tenants ((settings ->> 'customDomain'))
  where settings ->> 'customDomain' is not null;

-- The lock on a tenant's definitions, as a lease: a change of fields spans several transactions. An
-- expired row means that a change was interrupted and needs cleanup.
create table platform.definition_locks (
  tenant_id uuid constraint definition_locks_pkey primary key references platform.tenants (id) on delete cascade,
  holder uuid not null,
  expires_at timestamptz not null
);
