-- The objects of the current schema: kind, table, name and the statement that creates each, in an order in
-- which every object comes after those it depends on.

with relation as (
  select c.oid, c.relname as name, c.relkind as kind, c.reloptions as options, c.relispartition as is_partition,
    p.relname as parent
  from pg_class as c
  left join pg_inherits as i on i.inhrelid = c.oid
  left join pg_class as p on p.oid = i.inhparent
  where c.relnamespace = current_schema()::regnamespace
    and (not c.relispartition or pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT')
),
attribute as (
  select r.name as table, a.attname as name, a.attnum as position,
    format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod))
      || case when a.attcollation <> t.typcollation then format(' collate %I', l.collname) else '' end
      || case when a.attidentity = 'a' then ' generated always as identity' else '' end
      || case when a.attnotnull then ' not null' else '' end
      || coalesce(
        case a.attgenerated when 's' then format(' generated always as (%s) stored', pg_get_expr(d.adbin, d.adrelid))
          else ' default ' || pg_get_expr(d.adbin, d.adrelid) end, '') as definition
  from relation as r
  join pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  join pg_type as t on t.oid = a.atttypid
  left join pg_collation as l on l.oid = a.attcollation
  left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where r.kind in ('r', 'p') and not r.is_partition
),
object (step, kind, "table", name, position, ddl) as (
  select 1, 'function', null, f.proname, 0,
    regexp_replace(pg_get_functiondef(f.oid), 'FUNCTION [^(]+\.', 'FUNCTION ')
  from pg_proc as f
  where f.pronamespace = current_schema()::regnamespace
  union all
  select 2, 'table', r.name, r.name, 0,
    case
      when r.is_partition then format('create table %I partition of %I default', r.name, r.parent)
      else format(E'create table %I (\n  %s\n)%s%s', r.name,
        (select string_agg(a.definition, E',\n  ' order by a.position) from attribute as a where a.table = r.name),
        ' partition by ' || pg_get_partkeydef(r.oid),
        ' with (' || array_to_string(r.options, ', ') || ')')
    end
  from relation as r
  where r.kind in ('r', 'p')
  union all
  select 3, 'column', a.table, a.name, a.position, format('alter table %I add column %s', a.table, a.definition)
  from attribute as a
  union all
  select case when k.contype = 'f' then 5 else 4 end, case when k.contype = 'f' then 'foreign key' else 'constraint' end,
    r.name, k.conname, 0, format('alter table %I add constraint %I %s', r.name, k.conname, pg_get_constraintdef(k.oid))
  from relation as r
  join pg_constraint as k on k.conrelid = r.oid and k.contype in ('p', 'u', 'c', 'f')
  where not r.is_partition
  union all
  select 6, 'index', r.name, c.relname, 0, pg_get_indexdef(c.oid, 0, true)
  from relation as r
  join pg_index as i on i.indrelid = r.oid and i.indisvalid
  join pg_class as c on c.oid = i.indexrelid
  where not r.is_partition and not exists (select from pg_constraint as k where k.conindid = c.oid)
  union all
  select 7, 'trigger', r.name, g.tgname, 0, replace(pg_get_triggerdef(g.oid, true), 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER')
  from relation as r
  join pg_trigger as g on g.tgrelid = r.oid and not g.tgisinternal and g.tgenabled <> 'D'
  where not r.is_partition
  union all
  select 8, 'sequence', null, r.name, 0, format('create sequence %I', r.name)
  from relation as r
  where r.kind = 'S' and not exists (select from pg_depend as d where d.objid = r.oid and d.deptype = 'i')
)
select kind, "table"::text, name::text, ddl
from object
order by step, "table" collate "C", position, name collate "C";
