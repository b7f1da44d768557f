-- The bytes of `data` before it is compressed, so that readers can bound what they read without unpacking it. Null when the
-- change knew only the compressed value, and for events without `data`.

alter table platform.events add column data_bytes int;
