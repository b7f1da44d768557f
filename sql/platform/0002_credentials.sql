-- Credentials, in the platform schema because a request's tenant is not known before its credential
-- is found. Keys, session ids and tokens are stored as SHA-256 hashes only.

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

create table platform.apis (
  id uuid constraint apis_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  name text not null,
  slug text not null,
  roles jsonb not null default '[]',
  permissions jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  constraint apis_slug_key unique (tenant_id, slug)
);

create table platform.platform_keys (
  id uuid constraint platform_keys_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  api_id uuid not null references platform.apis (id) on delete cascade,
  prefix text not null,
  hash bytea not null constraint platform_keys_hash_key unique,
  role text not null,
  label text,
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  created_by text
);

create index platform_keys_api_idx on platform.platform_keys (api_id, id);
create index platform_keys_tenant_idx on platform.platform_keys (tenant_id);

create table platform.public_keys (
  id uuid constraint public_keys_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  prefix text not null,
  hash bytea not null constraint public_keys_hash_key unique,
  label text not null,
  role_id uuid not null,
  scopes jsonb not null,
  allowed_origins jsonb not null default '[]',
  rate_limit_per_min int not null,
  rate_limit_per_day int not null,
  expires_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  created_by text
);

create index public_keys_tenant_idx on platform.public_keys (tenant_id, id);

-- A preflight carries no key: it succeeds if any active key lists its origin.
create index public_keys_origins_idx on platform.public_keys using gin (allowed_origins jsonb_path_ops)
  where revoked_at is null;

create table platform.bots (
  id uuid constraint bots_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  name text not null,
  secret_hash bytea not null,
  permissions jsonb not null default '{"entities": {}}',
  created_by text,
  revoked_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  constraint bots_name_key unique (tenant_id, name)
);

create table platform.admin_keys (
  id uuid constraint admin_keys_pkey primary key,
  prefix text not null,
  hash bytea not null constraint admin_keys_hash_key unique,
  name text not null,
  scopes jsonb not null,
  is_active boolean not null default true,
  last_used_at timestamptz(3),
  expires_at timestamptz(3),
  created_at timestamptz(3) not null default now()
);

create index admin_keys_prefix_idx on platform.admin_keys (prefix);

create table platform.admin_key_audit (
  id uuid constraint admin_key_audit_pkey primary key,
  key_id uuid not null references platform.admin_keys (id) on delete cascade,
  action text not null,
  actor_id text,
  endpoint text,
  ip text,
  created_at timestamptz(3) not null default now()
);

create index admin_key_audit_key_idx on platform.admin_key_audit (key_id, id desc);

-- The tenant selected in an MCP session. A session belongs to the credential that opened it.
create table platform.mcp_sessions (
  id_hash bytea not null,
  owner text not null,
  tenant_slug text,
  created_at timestamptz(3) not null default now(),
  constraint mcp_sessions_pkey primary key (id_hash)
);

create index mcp_sessions_age_idx on platform.mcp_sessions (created_at);
