-- The deletion that has suspended a tenant, until it has deleted it: an id that names its process (src/runtime/owned-ids.ts). Null for
-- a tenant that an operator has suspended.

alter table platform.tenants add column deletion uuid;
create index tenants_deletion_idx on platform.tenants (deletion) where deletion is not null;
