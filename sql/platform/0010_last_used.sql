-- When each credential was last used, accurate to a minute (src/runtime/last-used.ts); null before its first use.
-- Admin keys have the column already.

alter table platform.owner_keys add column last_used_at timestamptz(3);
alter table platform.platform_keys add column last_used_at timestamptz(3);
alter table platform.public_keys add column last_used_at timestamptz(3);
alter table platform.bots add column last_used_at timestamptz(3);
