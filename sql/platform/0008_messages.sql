-- Messages between agents. `chain_depth` and `in_reply_to` are stored, so the depth limit survives restarts.

create table platform.messages (
  id uuid constraint messages_pkey primary key,
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  from_agent text,
  to_agent text not null,
  subject text not null,
  body text not null,
  priority text not null constraint messages_priority_check check (priority in ('low', 'normal', 'high')),
  in_reply_to uuid,
  chain_depth int not null constraint messages_depth_check check (chain_depth between 0 and 5),
  created_at timestamptz(3) not null default now(),
  read_at timestamptz(3)
);

create index messages_agent_idx on platform.messages (tenant_id, to_agent, id desc);
create index messages_unread_idx on platform.messages (tenant_id, to_agent, id desc) where read_at is null;
create index messages_tenant_idx on platform.messages (tenant_id, id desc);
