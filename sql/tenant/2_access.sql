-- People, their roles and the business rules of a tenant.

create table if not exists roles (
  id uuid primary key
);

alter table roles
  add column if not exists name text not null constraint roles_name_key unique,
  add column if not exists description text,
  add column if not exists is_system boolean not null default false,
  add column if not exists permissions jsonb not null default '{}',
  add column if not exists entities jsonb not null default '{}',
  add column if not exists created_at timestamptz(3) not null default now(),
  add column if not exists updated_at timestamptz(3) not null default now();

create table if not exists users (
  id uuid primary key
);

alter table users
  add column if not exists email text not null,
  add column if not exists name text not null default '',
  add column if not exists role text not null,
  add column if not exists password_hash text,
  add column if not exists is_active boolean not null default true,
  add column if not exists token_version int not null default 1,
  add column if not exists created_at timestamptz(3) not null default now(),
  add column if not exists updated_at timestamptz(3) not null default now();

create unique index if not exists users_email_key on users (lower(email));

create table if not exists business_rules (
  id uuid primary key
);

alter table business_rules
  add column if not exists name text not null default '',
  add column if not exists entity_id uuid not null references entity_definitions (id) on delete cascade,
  add column if not exists trigger text not null,
  add column if not exists condition text,
  add column if not exists action jsonb not null,
  add column if not exists priority int not null default 0,
  add column if not exists is_active boolean not null default true,
  add column if not exists created_at timestamptz(3) not null default now(),
  add column if not exists updated_at timestamptz(3) not null default now();

insert into roles (id, name, description, is_system, permissions)
values
  (platform.uuidv7(), 'owner', 'Everything', true, '{"*": ["read", "create", "update", "delete"]}'),
  (platform.uuidv7(), 'admin', 'Everything', true, '{"*": ["read", "create", "update", "delete"]}'),
  (platform.uuidv7(), 'member', 'Reads and writes all records', true, '{"*": ["read", "create", "update", "delete"]}'),
  (platform.uuidv7(), 'viewer', 'Reads all records', true, '{"*": ["read"]}')
on conflict (name) do nothing;
