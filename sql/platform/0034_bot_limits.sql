-- What a bot may do at most: { writesPerHour?, maxRowsPerCall? }.

alter table platform.bots add column limits jsonb not null default '{}';
