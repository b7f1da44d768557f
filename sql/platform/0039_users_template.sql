-- The columns of every tenant's users. `like` copies how values are stored, which `create table` can state only from
-- PostgreSQL 16 on: all texts of a user are short, so that a table of them needs no TOAST table. It has no rows.
create table platform.users_template (
  id uuid not null,
  email text not null,
  name text not null default '',
  role text not null,
  password_hash text,
  is_active boolean not null default true,
  token_version int not null default 1,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  search text not null generated always as (lower(email || chr(10) || name)) stored
);

alter table platform.users_template
  alter column email set storage plain,
  alter column name set storage plain,
  alter column role set storage plain,
  alter column password_hash set storage plain,
  alter column search set storage plain;
