-- Definitions of entities and fields, and the records: one partition of entity_records per entity,
-- created with the entity.

create table entity_definitions (
  id uuid constraint entity_definitions_pkey primary key,
  name text not null constraint entity_definitions_name_key unique,
  label text,
  description text,
  is_system boolean not null default false,
  version bigint not null default 1,
  next_slot int not null default 1,
  retired_slots jsonb not null default '[]',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

-- `slot` is the field's key in entity_records.data. `next` is the definition that a field is changing
-- to; until the change is complete, writes satisfy both.
create table field_definitions (
  id uuid constraint field_definitions_pkey primary key,
  entity_id uuid not null
    constraint field_definitions_entity_id_fkey references entity_definitions (id) on delete cascade,
  key text not null,
  slot text not null,
  type text not null,
  label text,
  description text,
  is_required boolean not null default false,
  is_unique boolean not null default false,
  is_indexed boolean not null default false,
  is_system boolean not null default false,
  default_value jsonb,
  rules jsonb not null default '{}',
  target_id uuid constraint field_definitions_target_id_fkey references entity_definitions (id),
  on_delete text,
  position int not null default 0,
  next jsonb,
  created_at timestamptz(3) not null default now()
);

create unique index field_definitions_key_key on field_definitions (entity_id, key);
create unique index field_definitions_slot_key on field_definitions (entity_id, slot);
create index field_definitions_target_idx on field_definitions (target_id);

create table entity_records (
  entity_id uuid not null,
  id uuid not null,
  data jsonb not null default '{}',
  search_vector tsvector,
  version bigint not null default 1,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  created_by text collate "C",
  updated_by text collate "C"
) partition by list (entity_id);

-- Records per entity (n) and writes per entity (v), spread over slots so that concurrent writers
-- seldom lock the same row.
create table entity_counts (
  entity_id uuid not null constraint entity_counts_entity_id_fkey references entity_definitions (id) on delete cascade,
  slot int not null,
  n bigint not null default 0,
  v bigint not null default 0,
  constraint entity_counts_pkey primary key (entity_id, slot)
) with (fillfactor = 40);

create function enforce_svc_system() returns trigger language plpgsql as $$
begin
  if new.name like '\_svc\_%' then
    new.is_system := true;
  end if;
  return new;
end
$$;

create trigger trg_enforce_svc_system
  before insert or update on entity_definitions
  for each row execute function enforce_svc_system();
