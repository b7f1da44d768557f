-- References that went with a table which was dropped and is made anew. They hold for all rows from now
-- on; old rows may point at what is gone, and stay.

do $$
declare
  wanted record;
begin
  for wanted in
    select *
    from (values
      ('field_definitions', 'entity_id', 'entity_definitions', 'on delete cascade'),
      ('field_definitions', 'target_id', 'entity_definitions', ''),
      ('entity_counts', 'entity_id', 'entity_definitions', 'on delete cascade'),
      ('business_rules', 'entity_id', 'entity_definitions', 'on delete cascade'),
      ('views', 'entity_id', 'entity_definitions', 'on delete cascade'),
      ('chunks', 'document_id', 'documents', 'on delete cascade')
    ) as w (source, source_column, target, action)
    where not exists (
      select
      from pg_constraint k
      join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
      where k.contype = 'f' and k.conrelid = w.source::regclass and k.confrelid = w.target::regclass
        and a.attname = w.source_column
    )
  loop
    execute format(
      'alter table %I add foreign key (%I) references %I (id) %s not valid',
      wanted.source, wanted.source_column, wanted.target, wanted.action
    );
  end loop;
end
$$;
