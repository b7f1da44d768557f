-- Responses stored for `Idempotency-Key`, inserted in the transaction of the change, so a crash leaves
-- both or neither.

create table platform.idempotency_keys (
  tenant_id uuid not null,
  caller text not null,
  route text not null,
  key text not null,
  body_hash bytea not null,
  status int not null,
  answer text not null,
  headers jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  constraint idempotency_keys_pkey primary key (tenant_id, caller, route, key)
);

create index idempotency_keys_age_idx on platform.idempotency_keys (created_at);
