-- What a stream that a ticket opens shows of the feed of changes: from which cursor, under which condition or view, and
-- whether with transitions. Null for live events alone.

alter table platform.stream_tickets add column follow jsonb;
