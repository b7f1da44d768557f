-- What a tenant's schema holds: definitions, and one partition of entity_records per entity.
-- Provisioning, upgrade and repair run the same files, with search_path set to the tenant's schema. Each
-- table is made with its key alone and gets its columns one by one, so that a schema that lacks some,
-- because it is older or was damaged, gets them too. The health check requires every column named here.

create table if not exists entity_definitions (
  id uuid primary key
);

alter table entity_definitions
  add column if not exists name text not null constraint entity_definitions_name_key unique,
  add column if not exists label text,
  add column if not exists description text,
  add column if not exists is_system boolean not null default false,
  add column if not exists version bigint not null default 1,
  add column if not exists next_slot int not null default 1,
  add column if not exists retired_slots jsonb not null default '[]',
  add column if not exists created_at timestamptz(3) not null default now(),
  add column if not exists updated_at timestamptz(3) not null default now();

create table if not exists field_definitions (
  id uuid primary key
);

alter table field_definitions
  add column if not exists entity_id uuid not null references entity_definitions (id) on delete cascade,
  add column if not exists key text not null,
  add column if not exists slot text not null,
  add column if not exists type text not null,
  add column if not exists label text,
  add column if not exists description text,
  add column if not exists is_required boolean not null default false,
  add column if not exists is_unique boolean not null default false,
  add column if not exists is_indexed boolean not null default false,
  add column if not exists is_system boolean not null default false,
  add column if not exists default_value jsonb,
  add column if not exists rules jsonb not null default '{}',
  add column if not exists target_id uuid references entity_definitions (id),
  add column if not exists on_delete text,
  add column if not exists position int not null default 0,
  add column if not exists created_at timestamptz(3) not null default now();

create unique index if not exists field_definitions_key_key on field_definitions (entity_id, key);
create unique index if not exists field_definitions_slot_key on field_definitions (entity_id, slot);
create index if not exists field_definitions_target_idx on field_definitions (target_id);

create table if not exists entity_records (
  entity_id uuid not null
) partition by list (entity_id);

alter table entity_records
  add column if not exists id uuid not null,
  add column if not exists data jsonb not null default '{}',
  add column if not exists words tsvector,
  add column if not exists version bigint not null default 1,
  add column if not exists created_at timestamptz(3) not null default now(),
  add column if not exists updated_at timestamptz(3) not null default now(),
  add column if not exists created_by text collate "C",
  add column if not exists updated_by text collate "C";

-- Records per entity (n) and writes per entity (v), spread over slots so that concurrent writers
-- do not queue for one row.
create table if not exists entity_counts (
  entity_id uuid not null references entity_definitions (id) on delete cascade,
  slot int not null,
  primary key (entity_id, slot)
) with (fillfactor = 40);

alter table entity_counts
  add column if not exists n bigint not null default 0,
  add column if not exists v bigint not null default 0;

create or replace function enforce_svc_system() returns trigger language plpgsql as $$
begin
  if new.name like '\_svc\_%' then
    new.is_system := true;
  end if;
  return new;
end
$$;

create or replace trigger trg_enforce_svc_system
  before insert or update on entity_definitions
  for each row execute function enforce_svc_system();

update entity_definitions set is_system = true where name like '\_svc\_%' and not is_system;
