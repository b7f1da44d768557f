-- Erasing the values of a record for good: what is left of its events says when that was done, and by whom. Their `data` is then
-- an empty object, and their `old` null.
alter table platform.events add column erased_at timestamptz(3), add column erased_by text;

-- Erasures in progress. A process that dies leaves its row, which another takes over when it is due. `seq` is the number of the
-- event of the deletion, which never had values; null for a record deleted before. `is_swept`: everything has been erased that
-- could be found, and it is looked for once more, for what was under way in some process.
create table platform.erasures (
  tenant_id uuid not null constraint erasures_tenant_fkey references platform.tenants (id) on delete cascade,
  record_id uuid not null,
  at timestamptz(3) not null default now(),
  actor text,
  seq bigint,
  is_swept boolean not null default false,
  due_at timestamptz not null,
  constraint erasures_pkey primary key (tenant_id, record_id)
);

create index erasures_due_idx on platform.erasures (due_at);
