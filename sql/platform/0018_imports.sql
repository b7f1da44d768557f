-- Imports, so that the events of one can be found: they carry its id, and their numbers are from `first_seq` to `last_seq`.
-- An index of the events by import would cost every change of a record, and here only imports pay. `last_seq` is null while
-- an import runs, and stays so when its process is killed.

alter table platform.events add column import_id uuid;

create table platform.imports (
  id uuid constraint imports_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  entity_id uuid not null,
  actor text,
  first_seq bigint not null,
  last_seq bigint
);

create index imports_tenant_idx on platform.imports (tenant_id);
