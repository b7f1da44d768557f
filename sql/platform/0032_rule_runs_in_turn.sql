-- Tenants take turns with their after rules: the next run is looked for tenant by tenant.

create index rule_runs_tenant_idx on platform.rule_runs (tenant_id, position);
