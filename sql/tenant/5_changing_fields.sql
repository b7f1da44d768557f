-- A field on its way to another definition: what it is to become. Writers obey both until it is done.

alter table field_definitions add column if not exists next jsonb;
