-- How many rule runs the change of one caller has started, for chains in which a rule's change starts further ones. The row
-- is written, and so locked, by the statement that queues the runs. Rows are deleted a day after the last run was queued.

create table platform.rule_chains (
  root_event_id uuid constraint rule_chains_pkey primary key,
  runs int not null,
  updated_at timestamptz(3) not null default now()
);

-- `runs` is the number of runs of the chain when this one was queued, itself included; for a change at depth 0, all that it
-- starts. `attempts` counts those that began: it is increased before the run executes. `next_at` is then when the next
-- attempt is due, unless the run has ended.
alter table platform.rule_runs add column runs int not null default 1;
