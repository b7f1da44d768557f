-- Views: an entity seen through a condition that always holds.

create table if not exists views (
  id uuid primary key
);

alter table views
  add column if not exists slug text not null constraint views_slug_key unique,
  add column if not exists entity_id uuid not null references entity_definitions (id) on delete cascade,
  add column if not exists name text not null,
  add column if not exists description text,
  add column if not exists filter_dsl jsonb not null default '{"validate": []}',
  add column if not exists created_at timestamptz(3) not null default now(),
  add column if not exists updated_at timestamptz(3) not null default now();
