-- Tenants and the credentials that are found before a tenant is known. Key values and session
-- tokens are kept as SHA-256 hashes only.

-- A version 7 UUID (RFC 9562), for rows that SQL files make.
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
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create unique index tenants_custom_domain_key
  on platform.tenants ((settings ->> 'customDomain'))
  where settings ->> 'customDomain' is not null;

create table platform.owner_keys (
  id uuid constraint owner_keys_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  prefix text not null,
  hash bytea not null constraint owner_keys_hash_key unique,
  label text not null,
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  created_by text
);

create index owner_keys_tenant_idx on platform.owner_keys (tenant_id, id);

create table platform.admin_sessions (
  id uuid constraint admin_sessions_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  hash bytea not null constraint admin_sessions_hash_key unique,
  expires_at timestamptz(3) not null,
  ended_at timestamptz(3),
  created_at timestamptz(3) not null default now()
);

create index admin_sessions_expiry_idx on platform.admin_sessions (expires_at);
