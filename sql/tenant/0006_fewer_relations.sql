-- Fewer tables and indexes for each tenant, 29 relations instead of 43: counters and views move to the platform's tables;
-- definitions, roles and chunks, which are few or found by their parent, keep one index each. Users have a text to search
-- in; all their texts are short, so that they need no TOAST table.

lock table entity_counts, views in access exclusive mode;

insert into platform.entity_counts (tenant_id, entity_id, slot, n, v, bytes, is_measured)
select substr(current_schema(), 3)::uuid, entity_id, slot, n, v, bytes, is_measured
from entity_counts;

insert into platform.views (id, tenant_id, slug, entity_id, name, description, filter_dsl, created_at, updated_at)
select id, substr(current_schema(), 3)::uuid, slug, entity_id, name, description, filter_dsl, created_at, updated_at
from views;

drop table entity_counts, views;

drop index field_definitions_key_key, field_definitions_slot_key, field_definitions_target_idx;
alter table field_definitions drop constraint field_definitions_pkey;
alter table field_definitions add constraint field_definitions_pkey primary key (entity_id, key);

alter table roles drop constraint roles_pkey, drop constraint roles_name_key;
alter table roles add constraint roles_pkey primary key (name);

drop index chunks_document_idx;
alter table chunks drop constraint chunks_pkey;
alter table chunks add constraint chunks_pkey primary key (document_id, position, id);

alter table users
  add column search text not null generated always as (lower(email || chr(10) || name)) stored,
  alter column email set storage plain,
  alter column name set storage plain,
  alter column role set storage plain,
  alter column password_hash set storage plain,
  alter column search set storage plain;
