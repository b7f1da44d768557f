-- Entities whose setting `searchFolding` has changed: the search terms of their records are still partly those of the setting
-- before. `after_id`: records up to this id have the new ones; null before the first. A process takes one for some seconds,
-- which is `due_at`; another goes on when it has died. A further change of the setting begins again, as another `attempt`.
create table platform.search_rebuilds (
  entity_id uuid not null constraint search_rebuilds_pkey primary key,
  tenant_id uuid not null constraint search_rebuilds_tenant_fkey references platform.tenants (id) on delete cascade,
  attempt uuid not null,
  after_id uuid,
  due_at timestamptz not null default now()
);

create index search_rebuilds_due_idx on platform.search_rebuilds (due_at);
create index search_rebuilds_tenant_idx on platform.search_rebuilds (tenant_id);
