-- Tenants whose quota of deliveries in a day has changed: their deliveries that wait for the next day are being released. A process
-- takes a tenant until `due_at`; another one goes on when it has died. A further change begins again, as another `attempt`.
create table platform.delivery_releases (
  tenant_id uuid constraint delivery_releases_pkey primary key
    constraint delivery_releases_tenant_fkey references platform.tenants (id) on delete cascade,
  attempt uuid not null,
  due_at timestamptz not null
);
