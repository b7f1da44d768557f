-- Runs are claimed in the order in which they are due. A claim that finds runs blocked by an earlier one of their record
-- marks them, so that no later claim finds them; the end of the earlier run unmarks the next one. So a claim costs the same
-- however many runs are blocked. A run is marked only by a statement that holds the lock of an earlier run of its record:
-- that one ends afterwards, and its trigger, which sees what has been committed before, finds the mark.

alter table platform.rule_runs add column is_blocked boolean not null default false;

create index rule_runs_due_idx on platform.rule_runs (tenant_id, is_blocked, next_at, position);
drop index platform.rule_runs_tenant_idx;

create function platform.unblock_next_run() returns trigger language plpgsql as $$
begin
  update platform.rule_runs as r set is_blocked = false
  where r.position = (select min(n.position) from platform.rule_runs as n where n.record_id = old.record_id)
    and r.is_blocked;
  return null;
end
$$;

create trigger rule_runs_ended after delete on platform.rule_runs
  for each row execute function platform.unblock_next_run();
