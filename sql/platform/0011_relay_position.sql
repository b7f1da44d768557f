-- What the relay has relayed of each tenant, which its watermark alone does not say: tenants are served in turn, so one
-- may be behind the others. Only valid with the watermark that it contains: a process of an earlier version updates the
-- watermark alone.

alter table platform.relay add column position jsonb;
