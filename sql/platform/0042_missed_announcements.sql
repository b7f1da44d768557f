-- How often an announcement of a change may not have reached the other processes through Redis. Each process reads it several
-- times a second, and forgets all that it has cached when it has grown.
create table platform.missed_announcements (
  id boolean constraint missed_announcements_pkey primary key default true
    constraint missed_announcements_one check (id),
  count bigint not null default 0
);
insert into platform.missed_announcements default values;
