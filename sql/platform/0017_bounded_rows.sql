-- Bounds of what a tenant keeps besides its records: messages and stored responses are counted by tenant, so that a limit is
-- checked without reading them; invitations, password resets and read messages are found by age, to be deleted.

-- The sum over the slots counts; a transaction adds to the slot of its connection, so that writers seldom wait for each other.
create table platform.stored (
  tenant_id uuid not null references platform.tenants (id) on delete cascade,
  kind text not null constraint stored_kind_check check (kind in ('messages', 'idempotency_keys')),
  slot int not null,
  n bigint not null,
  bytes bigint not null,
  constraint stored_pkey primary key (tenant_id, kind, slot)
);

insert into platform.stored (tenant_id, kind, slot, n, bytes)
select tenant_id, 'messages', 0, count(*), sum(200 + octet_length(subject) + octet_length(body))
from platform.messages
group by tenant_id
union all
select k.tenant_id, 'idempotency_keys', 0, count(*), sum(300 + octet_length(k.key) + octet_length(k.answer))
from platform.idempotency_keys as k
join platform.tenants as t on t.id = k.tenant_id
group by k.tenant_id;

-- The argument of both is the expression of a row's bytes.
create function platform.count_added() returns trigger language plpgsql as $$
begin
  execute format('
    insert into platform.stored as s (tenant_id, kind, slot, n, bytes)
    select tenant_id, $1, pg_backend_pid() %% 16, count(*), sum(%s)
    from added
    group by tenant_id
    on conflict (tenant_id, kind, slot) do update set n = s.n + excluded.n, bytes = s.bytes + excluded.bytes', tg_argv[0])
  using tg_table_name;
  return null;
end
$$;

-- Of a tenant that is being deleted, there may be no row any more.
create function platform.count_removed() returns trigger language plpgsql as $$
begin
  execute format('
    update platform.stored as s set n = s.n - r.n, bytes = s.bytes - r.bytes
    from (select tenant_id, count(*) as n, sum(%s) as bytes from removed group by tenant_id) as r
    where s.tenant_id = r.tenant_id and s.kind = $1 and s.slot = (
      select min(f.slot) from platform.stored as f where f.tenant_id = r.tenant_id and f.kind = $1)', tg_argv[0])
  using tg_table_name;
  return null;
end
$$;

create trigger messages_added after insert on platform.messages referencing new table as added
  for each statement execute function platform.count_added('200 + octet_length(subject) + octet_length(body)');
create trigger messages_removed after delete on platform.messages referencing old table as removed
  for each statement execute function platform.count_removed('200 + octet_length(subject) + octet_length(body)');
create trigger idempotency_keys_added after insert on platform.idempotency_keys referencing new table as added
  for each statement execute function platform.count_added('300 + octet_length(key) + octet_length(answer)');
create trigger idempotency_keys_removed after delete on platform.idempotency_keys referencing old table as removed
  for each statement execute function platform.count_removed('300 + octet_length(key) + octet_length(answer)');
-- A key that is used again after a day.
create trigger idempotency_keys_changed after update on platform.idempotency_keys referencing new table as added
  for each statement execute function platform.count_added('300 + octet_length(key) + octet_length(answer)');
create trigger idempotency_keys_replaced after update on platform.idempotency_keys referencing old table as removed
  for each statement execute function platform.count_removed('300 + octet_length(key) + octet_length(answer)');

create index messages_read_idx on platform.messages (read_at) where read_at is not null;
create index messages_room_idx on platform.messages (tenant_id, read_at) where read_at is not null;
create index password_resets_age_idx on platform.password_resets (expires_at);
create index invitations_ended_idx on platform.invitations (coalesce(revoked_at, accepted_at, expires_at));
create index invitations_inviter_idx on platform.invitations (inviter, id) where kind = 'platform';
create index mcp_sessions_owner_idx on platform.mcp_sessions (owner, created_at);
