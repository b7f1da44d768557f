-- What the open streams of each process listen to: the relay leaves everything else out. Written before a
-- stream takes the snapshot from which on it shows events, so whoever sees such an event sees this too.

create table platform.listeners (
  process_id uuid constraint listeners_pkey primary key,
  touched_at timestamptz not null default clock_timestamp()
);

-- An entity by its name; '' is everything of the tenant.
create table platform.listened (
  tenant_id uuid not null,
  entity text not null,
  process_id uuid not null constraint listened_process_fkey references platform.listeners on delete cascade,
  constraint listened_pkey primary key (tenant_id, entity, process_id)
);

create index listened_process_idx on platform.listened (process_id);
