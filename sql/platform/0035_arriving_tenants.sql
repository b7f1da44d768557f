-- Tenants that are being read from a document. Nothing of them is in the other tables of this schema before they are complete, so
-- nobody sees them; until then they have their own Postgres schema alone. A process that dies leaves its row, and another one
-- drops the schema when the row has expired.

create table platform.arriving_tenants (
  id uuid constraint arriving_tenants_pkey primary key,
  process_id uuid not null,
  expires_at timestamptz not null
);

-- A document keeps the ids of views, platform APIs and records, also beside the tenant that it was made of: they are unique in
-- their tenant.
alter table platform.views drop constraint views_pkey, add constraint views_pkey primary key (tenant_id, id);

alter table platform.platform_keys drop constraint platform_keys_api_id_fkey;
alter table platform.apis drop constraint apis_pkey, add constraint apis_pkey primary key (tenant_id, id);
alter table platform.platform_keys
  add constraint platform_keys_api_id_fkey foreign key (tenant_id, api_id)
  references platform.apis (tenant_id, id) on delete cascade;

drop index platform.rule_runs_record_idx;
create index rule_runs_record_idx on platform.rule_runs (record_id, tenant_id, position);

create or replace function platform.unblock_next_run() returns trigger language plpgsql as $$
begin
  update platform.rule_runs as r set is_blocked = false
  where r.position = (
    select min(n.position) from platform.rule_runs as n
    where n.record_id = old.record_id and n.tenant_id = old.tenant_id)
    and r.is_blocked;
  return null;
end
$$;
