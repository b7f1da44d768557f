-- Lists that took long and that no index serves, by hour and combination of filters and sort keys, without values. `durations`
-- counts them by how long they took, so that the counts of processes and hours add up to a median.
create table platform.slow_lists (
  tenant_id uuid not null constraint slow_lists_tenant_fkey references platform.tenants (id) on delete cascade,
  hour timestamptz not null,
  entity_id uuid not null,
  combination text not null,
  seen bigint not null,
  total_ms bigint not null,
  durations int[] not null,
  constraint slow_lists_pkey primary key (tenant_id, hour, entity_id, combination)
) with (fillfactor = 50);

create index slow_lists_age_idx on platform.slow_lists (hour);
