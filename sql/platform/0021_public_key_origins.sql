-- A preflight carries no key: it is answered when any key may be used from the origin.

create index public_keys_origins_idx on platform.public_keys using gin (allowed_origins jsonb_path_ops)
  where revoked_at is null;
