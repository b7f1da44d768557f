-- The records of a tenant's waiting runs are bounded in bytes: each image has its tenant and its size. Those of processes of an
-- earlier version have neither and do not count; they are gone when their runs are.

alter table platform.rule_images add column tenant_id uuid, add column bytes int;

create index rule_images_tenant_idx on platform.rule_images (tenant_id) include (bytes);
