-- Business rules, and views: an entity restricted by a fixed condition.

create table business_rules (
  id uuid constraint business_rules_pkey primary key,
  name text not null default '',
  entity_id uuid not null constraint business_rules_entity_id_fkey references entity_definitions (id) on delete cascade,
  trigger text not null,
  condition text,
  action jsonb not null,
  priority int not null default 0,
  is_active boolean not null default true,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create table views (
  id uuid constraint views_pkey primary key,
  slug text not null constraint views_slug_key unique,
  entity_id uuid not null constraint views_entity_id_fkey references entity_definitions (id) on delete cascade,
  name text not null,
  description text,
  filter_dsl jsonb not null default '{"validate": []}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
