-- A preflight names no tenant: it succeeds if the origins of any active tenant contain its origin.

create index tenants_origins_idx on platform.tenants using gin ((settings -> 'allowedOrigins') jsonb_path_ops)
  where status = 'active';
