-- When a field got its slot: versions of records made before have no value in it. It is not known of a field that has been
-- there before, so it counts as always. A trigger keeps it, so that a process of the version before does so too.

alter table field_definitions add column if not exists slot_at timestamptz(3);
alter table field_definitions alter column slot_at set default now();

create or replace function keep_slot_time() returns trigger language plpgsql as $$
begin
  if new.slot is distinct from old.slot then
    new.slot_at := now();
  end if;
  return new;
end
$$;

create or replace trigger trg_keep_slot_time before update on field_definitions
  for each row execute function keep_slot_time();
