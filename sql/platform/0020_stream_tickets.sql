-- Tickets, each of which opens one stream or one WebSocket: deleted when used, so that of two processes one gets it.
-- `opener` refers to the credential that made it, whose rights the stream has; `maker` is the user, bot or key. `entities`
-- and `events` narrow the stream; null does not.

create table platform.stream_tickets (
  hash bytea constraint stream_tickets_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  opener jsonb not null,
  maker text not null,
  entities jsonb,
  events jsonb,
  expires_at timestamptz(3) not null
);

create index stream_tickets_maker_idx on platform.stream_tickets (tenant_id, maker);
create index stream_tickets_expiry_idx on platform.stream_tickets (expires_at);
