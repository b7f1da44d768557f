-- What lists are in order of. Ids made here are in the order of `created_at`, so that the primary key serves it; entities with
-- others need an index, and so do those with records of before, whose times were read apart from their ids. The definition
-- lock of such a tenant is left as one of an interrupted change, after which what is missing is built. `indexes` are those of
-- several fields.

alter table entity_definitions
  add column if not exists is_in_id_order boolean not null default false,
  add column if not exists indexes jsonb not null default '[]';

do $$
declare
  entity record;
  has_records boolean;
begin
  for entity in select id from entity_definitions where not is_in_id_order loop
    has_records := to_regclass(format('r_%s', replace(entity.id::text, '-', ''))) is not null;
    if has_records then
      execute format('select exists (select from %I)', 'r_' || replace(entity.id::text, '-', '')) into has_records;
    end if;
    if has_records then
      insert into platform.definition_locks (tenant_id, holder, expires_at)
      values (substr(current_schema(), 3)::uuid, entity.id, now())
      on conflict do nothing;
    else
      update entity_definitions set is_in_id_order = true where id = entity.id;
    end if;
  end loop;
end
$$;
