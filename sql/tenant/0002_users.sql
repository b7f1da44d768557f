-- Users and roles of a tenant. The system roles are in seed.sql.

create table roles (
  id uuid constraint roles_pkey primary key,
  name text not null constraint roles_name_key unique,
  description text,
  is_system boolean not null default false,
  permissions jsonb not null default '{}',
  entities jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create table users (
  id uuid constraint users_pkey primary key,
  email text not null,
  name text not null default '',
  role text not null,
  password_hash text,
  is_active boolean not null default true,
  token_version int not null default 1,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create unique index users_email_key on users (lower(email));
