-- Who is changing a tenant's definitions, under a lease: one change at a time, over several
-- transactions. A row whose lease has run out is a change that was cut off, to be cleared away.

create table platform.definition_changes (
  tenant_id uuid primary key references platform.tenants (id) on delete cascade,
  holder uuid not null,
  until timestamptz not null
);
