-- Sign-in of tenant users: lockouts, password resets and invitations.

-- Failed attempts per account. `account` is the hash of kind, tenant and name.
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

-- Invitations of tenant members, and platform codes that create a tenant. `role` is the invited user's role.
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
