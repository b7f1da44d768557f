-- Bytes of the records' values (JSON text), counted like the records themselves. Entities that are older than the
-- column are measured once; slot 0 says whether that has been done.

alter table entity_counts
  add column bytes bigint not null default 0,
  add column is_measured boolean not null default false;
alter table entity_counts alter column is_measured set default true;
