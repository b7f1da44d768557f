-- The tenant schema: what the migrations produce; generated, see test/schema-dump.test.ts. Names are unqualified.

CREATE OR REPLACE FUNCTION enforce_svc_system()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new.name like '\_svc\_%' then
    new.is_system := true;
  end if;
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION keep_slot_time()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new.slot is distinct from old.slot then
    new.slot_at := now();
  end if;
  return new;
end
$function$;

create table business_rules (
  id uuid not null,
  name text not null default ''::text,
  entity_id uuid not null,
  trigger text not null,
  condition text,
  action jsonb not null,
  priority integer not null default 0,
  is_active boolean not null default true,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now()
);

alter table business_rules add constraint business_rules_pkey PRIMARY KEY (id);

alter table business_rules add constraint business_rules_entity_id_fkey FOREIGN KEY (entity_id) REFERENCES entity_definitions(id) ON DELETE CASCADE;

create table chunks (
  id uuid not null,
  document_id uuid not null,
  "position" integer not null default 0,
  content text not null default ''::text,
  created_at timestamp(3) with time zone not null default now(),
  embedding vector(1536)
);

alter table chunks add constraint chunks_pkey PRIMARY KEY (document_id, "position", id);

alter table chunks add constraint chunks_document_id_fkey FOREIGN KEY (document_id) REFERENCES documents(id) ON DELETE CASCADE;

CREATE INDEX chunks_embedding_hnsw ON chunks USING hnsw (embedding vector_cosine_ops);

create table documents (
  id uuid not null,
  title text,
  content_text text,
  metadata jsonb not null default '{}'::jsonb,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now()
);

alter table documents add constraint documents_pkey PRIMARY KEY (id);

create table entity_definitions (
  id uuid not null,
  name text not null,
  label text,
  description text,
  is_system boolean not null default false,
  version bigint not null default 1,
  next_slot integer not null default 1,
  retired_slots jsonb not null default '[]'::jsonb,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  search_folding boolean not null default false,
  is_in_id_order boolean not null default false,
  indexes jsonb not null default '[]'::jsonb
);

alter table entity_definitions add constraint entity_definitions_name_key UNIQUE (name);

alter table entity_definitions add constraint entity_definitions_pkey PRIMARY KEY (id);

CREATE OR REPLACE TRIGGER trg_enforce_svc_system BEFORE INSERT OR UPDATE ON entity_definitions FOR EACH ROW EXECUTE FUNCTION enforce_svc_system();

create table entity_records (
  entity_id uuid not null,
  id uuid not null,
  data jsonb not null default '{}'::jsonb,
  search_vector tsvector,
  version bigint not null default 1,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  created_by text collate "C",
  updated_by text collate "C"
) partition by LIST (entity_id);

create table field_definitions (
  id uuid not null,
  entity_id uuid not null,
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
  rules jsonb not null default '{}'::jsonb,
  target_id uuid,
  on_delete text,
  "position" integer not null default 0,
  next jsonb,
  created_at timestamp(3) with time zone not null default now(),
  slot_at timestamp(3) with time zone default now()
);

alter table field_definitions add constraint field_definitions_pkey PRIMARY KEY (entity_id, key);

alter table field_definitions add constraint field_definitions_entity_id_fkey FOREIGN KEY (entity_id) REFERENCES entity_definitions(id) ON DELETE CASCADE;

alter table field_definitions add constraint field_definitions_target_id_fkey FOREIGN KEY (target_id) REFERENCES entity_definitions(id);

CREATE OR REPLACE TRIGGER trg_keep_slot_time BEFORE UPDATE ON field_definitions FOR EACH ROW EXECUTE FUNCTION keep_slot_time();

create table roles (
  id uuid not null,
  name text not null,
  description text,
  is_system boolean not null default false,
  permissions jsonb not null default '{}'::jsonb,
  entities jsonb not null default '{}'::jsonb,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now()
);

alter table roles add constraint roles_pkey PRIMARY KEY (name);

create table users (
  id uuid not null,
  email text not null,
  name text not null default ''::text,
  role text not null,
  password_hash text,
  is_active boolean not null default true,
  token_version integer not null default 1,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  search text not null generated always as (lower(((email || chr(10)) || name))) stored
);

alter table users add constraint users_pkey PRIMARY KEY (id);

CREATE UNIQUE INDEX users_email_key ON users USING btree (lower(email));
