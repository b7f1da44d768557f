-- From which tenant a tenant comes that was made with a platform code: the first of the line, so that codes of the tenants
-- made count for it too. Null for a tenant that an operator made.

alter table platform.tenants add column made_by_tenant uuid;
create index tenants_made_by_idx on platform.tenants (made_by_tenant) where made_by_tenant is not null;

alter table platform.invitations add column inviting_tenant uuid;
