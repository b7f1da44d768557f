-- A custom domain works once its tenant has proved that it owns it. Until then several tenants may claim it.

alter table platform.tenants
  add column domain_token text,
  add column domain_verified_at timestamptz(3),
  add column domain_checked_at timestamptz(3);

-- Domains named before were unique, and keep working.
update platform.tenants
set domain_token = 'svc-verify-' || replace(gen_random_uuid()::text, '-', ''), domain_verified_at = now()
where settings ->> 'customDomain' is not null;

drop index platform.tenants_custom_domain_key;
create unique index tenants_custom_domain_key
  on platform.tenants ((settings ->> 'customDomain'))
  where domain_verified_at is not null and settings ->> 'customDomain' is not null;
create index tenants_pending_domain_idx
  on platform.tenants (domain_checked_at)
  where domain_verified_at is null and settings ->> 'customDomain' is not null;
