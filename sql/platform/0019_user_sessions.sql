-- Sign-ins of users. A user token names its session and the generation in it: each refresh begins a new generation, and
-- the tokens of the one before end a minute later. `ends` says when those of earlier generations end, in ms since the
-- epoch, the latest first. A session that was ended has no row.

create table platform.user_sessions (
  id uuid constraint user_sessions_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  user_id uuid not null,
  generation int not null default 1,
  ends jsonb not null default '[]',
  user_agent text,
  address text not null,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3) not null default now()
);

create index user_sessions_user_idx on platform.user_sessions (tenant_id, user_id);
create index user_sessions_expiry_idx on platform.user_sessions (expires_at);
