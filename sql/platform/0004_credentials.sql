-- Credentials other than owner keys and sessions: platform APIs and their keys, public keys, bots,
-- admin keys with their audit, and what guards logins. Values are kept as hashes only.

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

-- Failures to prove an identity, by account. An account is `kind tenant name`, hashed.
create table platform.lockouts (
  account bytea constraint lockouts_pkey primary key,
  failures int not null,
  window_started_at timestamptz(3) not null,
  locked_until timestamptz(3)
);

create index lockouts_age_idx on platform.lockouts (window_started_at);

create table platform.password_resets (
  id uuid constraint password_resets_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  user_id uuid not null,
  hash bytea not null constraint password_resets_hash_key unique,
  expires_at timestamptz(3) not null,
  used_at timestamptz(3),
  created_at timestamptz(3) not null default now()
);

create index password_resets_user_idx on platform.password_resets (tenant_id, user_id);

-- Invitations of both kinds: a tenant's members, and codes that make a tenant. `role` is the one the
-- invited person gets.
create table platform.invitations (
  id uuid constraint invitations_pkey primary key,
  hash bytea not null constraint invitations_hash_key unique,
  kind text not null constraint invitations_kind_check check (kind in ('member', 'platform')),
  tenant_id uuid references platform.tenants (id) on delete cascade,
  email text,
  role text not null,
  inviter text,
  expires_at timestamptz(3) not null,
  accepted_at timestamptz(3),
  revoked_at timestamptz(3),
  created_at timestamptz(3) not null default now()
);

create index invitations_tenant_idx on platform.invitations (tenant_id, id desc);
