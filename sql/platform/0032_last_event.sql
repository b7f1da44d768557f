-- The highest number of an event that the calling statement sees; 0 without one. By index, whatever the statistics of a new
-- partition say: the settings hold while it is planned, once for each connection.

create function platform.last_event() returns bigint language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
begin
  return coalesce((select seq from platform.events order by seq desc limit 1), 0);
end
$$;
