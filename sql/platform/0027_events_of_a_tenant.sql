-- The events of one tenant in the order of their numbers, for followers of its changes: a page of them reads as many rows as
-- it returns, however much other tenants have changed.

create index events_tenant_seq_idx on platform.events (tenant_id, seq);
