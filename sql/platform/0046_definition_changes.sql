-- The number of a tenant's changes of definitions that followers of the feed are told of. A change counts itself in its own transaction,
-- and its event has the number. A cursor has the number that was current for the definitions with which its response was made.

alter table platform.tenants add column definition_changes bigint not null default 0;
