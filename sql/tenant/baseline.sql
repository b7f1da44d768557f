-- The schema of a new tenant: what the migrations up to 0009 make, in its final form. Nothing is altered: an `alter table` that adds
-- a column with a default has Postgres read all of pg_index, which has every tenant's indexes. Later migrations run after it. To
-- take one in, write it here and raise the baseline's version; a test compares the outcomes.

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
  updated_at timestamptz(3) not null default now(),
  search_folding boolean not null default false,
  is_in_id_order boolean not null default false,
  indexes jsonb not null default '[]'
);

create table field_definitions (
  id uuid not null,
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
  created_at timestamptz(3) not null default now(),
  slot_at timestamptz(3) default now(),
  constraint field_definitions_pkey primary key (entity_id, key)
);

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

create function keep_slot_time() returns trigger language plpgsql as $$
begin
  if new.slot is distinct from old.slot then
    new.slot_at := now();
  end if;
  return new;
end
$$;

create trigger trg_keep_slot_time before update on field_definitions
  for each row execute function keep_slot_time();

create table roles (
  id uuid not null,
  name text constraint roles_pkey primary key,
  description text,
  is_system boolean not null default false,
  permissions jsonb not null default '{}',
  entities jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create table users (
  like platform.users_template including defaults including generated including storage,
  constraint users_pkey primary key (id)
);

create unique index users_email_key on users (lower(email));

create table documents (
  id uuid constraint documents_pkey primary key,
  title text,
  content_text text,
  metadata jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create table chunks (
  id uuid not null,
  document_id uuid not null constraint chunks_document_id_fkey references documents (id) on delete cascade,
  position int not null default 0,
  content text not null default '',
  created_at timestamptz(3) not null default now(),
  constraint chunks_pkey primary key (document_id, position, id)
);

do $$
declare
  vector_schema text := (
    select n.nspname from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace where e.extname = 'vector'
  );
begin
  if vector_schema is not null then
    execute format('alter table chunks add column embedding %I.vector(1536)', vector_schema);
    execute format(
      'create index chunks_embedding_hnsw on chunks using hnsw (embedding %I.vector_cosine_ops)', vector_schema
    );
  end if;
end
$$;

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
