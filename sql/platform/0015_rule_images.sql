-- The record of a change that has started rules, once for all of its runs: a change may start many, and a record may be
-- large. Inserted with the runs, deleted with the last one. `data` of older runs is in the run itself.

create table platform.rule_images (
  event_id uuid constraint rule_images_pkey primary key,
  data jsonb not null
);

alter table platform.rule_runs alter column data drop not null;
