-- A clone keeps the ids of its entities: they are unique in a tenant, not in an installation.
alter table platform.search_rebuilds
  drop constraint search_rebuilds_pkey,
  add constraint search_rebuilds_pkey primary key (tenant_id, entity_id);

drop index platform.search_rebuilds_tenant_idx;
