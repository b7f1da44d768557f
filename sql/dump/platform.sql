-- The platform schema: what the migrations produce; generated, see test/schema-dump.test.ts. Names are unqualified.

CREATE OR REPLACE FUNCTION count_added()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION count_removed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  execute format('
    update platform.stored as s set n = s.n - r.n, bytes = s.bytes - r.bytes
    from (select tenant_id, count(*) as n, sum(%s) as bytes from removed group by tenant_id) as r
    where s.tenant_id = r.tenant_id and s.kind = $1 and s.slot = (
      select min(f.slot) from platform.stored as f where f.tenant_id = r.tenant_id and f.kind = $1)', tg_argv[0])
  using tg_table_name;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION drop_deliveries()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  delete from platform.webhook_deliveries where subscription_id = old.id;
  delete from platform.webhook_health where subscription_id = old.id;
  delete from platform.webhook_replays where subscription_id = old.id;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION last_event()
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET jit TO 'off'
AS $function$
begin
  return coalesce((select seq from platform.events order by seq desc limit 1), 0);
end
$function$;

CREATE OR REPLACE FUNCTION unblock_next_run()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update platform.rule_runs as r set is_blocked = false
  where r.position = (
    select min(n.position) from platform.rule_runs as n
    where n.record_id = old.record_id and n.tenant_id = old.tenant_id)
    and r.is_blocked;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION uuidv7()
 RETURNS uuid
 LANGUAGE sql
AS $function$
  select encode(
    set_bit(set_bit(
      overlay(
        uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
        from 1 for 6
      ), 52, 1), 53, 1), 'hex')::uuid
$function$;

create table admin_key_audit (
  id uuid not null,
  key_id uuid not null,
  action text not null,
  actor_id text,
  endpoint text,
  ip text,
  created_at timestamp(3) with time zone not null default now()
);

alter table admin_key_audit add constraint admin_key_audit_pkey PRIMARY KEY (id);

alter table admin_key_audit add constraint admin_key_audit_key_id_fkey FOREIGN KEY (key_id) REFERENCES admin_keys(id) ON DELETE CASCADE;

CREATE INDEX admin_key_audit_key_idx ON admin_key_audit USING btree (key_id, id DESC);

create table admin_keys (
  id uuid not null,
  prefix text not null,
  hash bytea not null,
  name text not null,
  scopes jsonb not null,
  is_active boolean not null default true,
  last_used_at timestamp(3) with time zone,
  expires_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null default now()
);

alter table admin_keys add constraint admin_keys_hash_key UNIQUE (hash);

alter table admin_keys add constraint admin_keys_pkey PRIMARY KEY (id);

CREATE INDEX admin_keys_prefix_idx ON admin_keys USING btree (prefix);

create table admin_sessions (
  id uuid not null,
  tenant_id uuid not null,
  hash bytea not null,
  expires_at timestamp(3) with time zone not null,
  ended_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null default now()
);

alter table admin_sessions add constraint admin_sessions_hash_key UNIQUE (hash);

alter table admin_sessions add constraint admin_sessions_pkey PRIMARY KEY (id);

alter table admin_sessions add constraint admin_sessions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX admin_sessions_expiry_idx ON admin_sessions USING btree (expires_at);

create table apis (
  id uuid not null,
  tenant_id uuid not null,
  name text not null,
  slug text not null,
  roles jsonb not null default '[]'::jsonb,
  permissions jsonb not null default '{}'::jsonb,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now()
);

alter table apis add constraint apis_pkey PRIMARY KEY (tenant_id, id);

alter table apis add constraint apis_slug_key UNIQUE (tenant_id, slug);

alter table apis add constraint apis_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

create table arriving_tenants (
  id uuid not null,
  process_id uuid not null,
  expires_at timestamp with time zone not null
);

alter table arriving_tenants add constraint arriving_tenants_pkey PRIMARY KEY (id);

create table bots (
  id uuid not null,
  tenant_id uuid not null,
  name text not null,
  secret_hash bytea not null,
  permissions jsonb not null default '{"entities": {}}'::jsonb,
  created_by text,
  revoked_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  last_used_at timestamp(3) with time zone,
  limits jsonb not null default '{}'::jsonb
);

alter table bots add constraint bots_name_key UNIQUE (tenant_id, name);

alter table bots add constraint bots_pkey PRIMARY KEY (id);

alter table bots add constraint bots_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

create table definition_locks (
  tenant_id uuid not null,
  holder uuid not null,
  expires_at timestamp with time zone not null
);

alter table definition_locks add constraint definition_locks_pkey PRIMARY KEY (tenant_id);

alter table definition_locks add constraint definition_locks_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

create table delivery_releases (
  tenant_id uuid not null,
  attempt uuid not null,
  due_at timestamp with time zone not null
);

alter table delivery_releases add constraint delivery_releases_pkey PRIMARY KEY (tenant_id);

alter table delivery_releases add constraint delivery_releases_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

create table entity_counts (
  tenant_id uuid not null,
  entity_id uuid not null,
  slot integer not null,
  n bigint not null default 0,
  v bigint not null default 0,
  bytes bigint not null default 0,
  is_measured boolean not null default true
) with (fillfactor=40);

alter table entity_counts add constraint entity_counts_pkey PRIMARY KEY (tenant_id, entity_id, slot);

alter table entity_counts add constraint entity_counts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

create table erasures (
  tenant_id uuid not null,
  record_id uuid not null,
  at timestamp(3) with time zone not null default now(),
  actor text,
  seq bigint,
  is_swept boolean not null default false,
  due_at timestamp with time zone not null
);

alter table erasures add constraint erasures_pkey PRIMARY KEY (tenant_id, record_id);

alter table erasures add constraint erasures_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX erasures_due_idx ON erasures USING btree (due_at);

create table events (
  seq bigint not null default nextval('events_seq'::regclass),
  id uuid not null,
  at timestamp(3) with time zone not null default now(),
  xid xid8 not null default pg_current_xact_id(),
  tenant_id uuid not null,
  entity_id uuid,
  entity text,
  record_id uuid,
  type text not null,
  version bigint,
  data jsonb,
  old jsonb,
  payload jsonb,
  created_at timestamp(3) with time zone,
  updated_at timestamp(3) with time zone,
  created_by text,
  updated_by text,
  actor text,
  triggered_by text not null,
  depth integer not null default 0,
  root_event_id uuid,
  trace text,
  data_bytes integer,
  import_id uuid,
  erased_at timestamp(3) with time zone,
  erased_by text
) partition by RANGE (at);

CREATE INDEX events_seq_idx ON ONLY events USING btree (seq);

CREATE INDEX events_tenant_seq_idx ON ONLY events USING btree (tenant_id, seq);

create table events_default partition of events default;

create table idempotency_keys (
  tenant_id uuid not null,
  caller text not null,
  route text not null,
  key text not null,
  body_hash bytea not null,
  status integer not null,
  answer text not null,
  headers jsonb not null default '{}'::jsonb,
  created_at timestamp(3) with time zone not null default now(),
  slots text not null default ''::text
);

alter table idempotency_keys add constraint idempotency_keys_pkey PRIMARY KEY (tenant_id, caller, route, key);

CREATE INDEX idempotency_keys_age_idx ON idempotency_keys USING btree (created_at);

CREATE OR REPLACE TRIGGER idempotency_keys_added AFTER INSERT ON idempotency_keys REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_added('300 + octet_length(key) + octet_length(answer) + octet_length(slots)');

CREATE OR REPLACE TRIGGER idempotency_keys_changed AFTER UPDATE ON idempotency_keys REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_added('300 + octet_length(key) + octet_length(answer) + octet_length(slots)');

CREATE OR REPLACE TRIGGER idempotency_keys_removed AFTER DELETE ON idempotency_keys REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed('300 + octet_length(key) + octet_length(answer) + octet_length(slots)');

CREATE OR REPLACE TRIGGER idempotency_keys_replaced AFTER UPDATE ON idempotency_keys REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed('300 + octet_length(key) + octet_length(answer) + octet_length(slots)');

create table imports (
  id uuid not null,
  tenant_id uuid not null,
  entity_id uuid not null,
  actor text,
  first_seq bigint not null,
  last_seq bigint
);

alter table imports add constraint imports_pkey PRIMARY KEY (id);

alter table imports add constraint imports_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX imports_tenant_idx ON imports USING btree (tenant_id);

create table invitations (
  id uuid not null,
  hash bytea not null,
  kind text not null,
  tenant_id uuid,
  email text,
  role text not null,
  inviter text,
  expires_at timestamp(3) with time zone not null,
  accepted_at timestamp(3) with time zone,
  revoked_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null default now(),
  inviting_tenant uuid
);

alter table invitations add constraint invitations_hash_key UNIQUE (hash);

alter table invitations add constraint invitations_kind_check CHECK ((kind = ANY (ARRAY['member'::text, 'platform'::text])));

alter table invitations add constraint invitations_pkey PRIMARY KEY (id);

alter table invitations add constraint invitations_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX invitations_ended_idx ON invitations USING btree (COALESCE(revoked_at, accepted_at, expires_at));

CREATE INDEX invitations_inviter_idx ON invitations USING btree (inviter, id) WHERE kind = 'platform'::text;

CREATE INDEX invitations_tenant_idx ON invitations USING btree (tenant_id, id DESC);

create table lockouts (
  account bytea not null,
  failures integer not null,
  window_started_at timestamp(3) with time zone not null,
  locked_until timestamp(3) with time zone
);

alter table lockouts add constraint lockouts_pkey PRIMARY KEY (account);

CREATE INDEX lockouts_age_idx ON lockouts USING btree (window_started_at);

create table mcp_sessions (
  id_hash bytea not null,
  owner text not null,
  tenant_slug text,
  created_at timestamp(3) with time zone not null default now(),
  login jsonb
);

alter table mcp_sessions add constraint mcp_sessions_pkey PRIMARY KEY (id_hash);

CREATE INDEX mcp_sessions_age_idx ON mcp_sessions USING btree (created_at);

CREATE INDEX mcp_sessions_owner_idx ON mcp_sessions USING btree (owner, created_at);

create table messages (
  id uuid not null,
  tenant_id uuid not null,
  from_agent text,
  to_agent text not null,
  subject text not null,
  body text not null,
  priority text not null,
  in_reply_to uuid,
  chain_depth integer not null,
  created_at timestamp(3) with time zone not null default now(),
  read_at timestamp(3) with time zone
);

alter table messages add constraint messages_depth_check CHECK (((chain_depth >= 0) AND (chain_depth <= 5)));

alter table messages add constraint messages_pkey PRIMARY KEY (id);

alter table messages add constraint messages_priority_check CHECK ((priority = ANY (ARRAY['low'::text, 'normal'::text, 'high'::text])));

alter table messages add constraint messages_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX messages_agent_idx ON messages USING btree (tenant_id, to_agent, id DESC);

CREATE INDEX messages_read_idx ON messages USING btree (read_at) WHERE read_at IS NOT NULL;

CREATE INDEX messages_room_idx ON messages USING btree (tenant_id, read_at) WHERE read_at IS NOT NULL;

CREATE INDEX messages_tenant_idx ON messages USING btree (tenant_id, id DESC);

CREATE INDEX messages_unread_idx ON messages USING btree (tenant_id, to_agent, id DESC) WHERE read_at IS NULL;

CREATE OR REPLACE TRIGGER messages_added AFTER INSERT ON messages REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_added('200 + octet_length(subject) + octet_length(body)');

CREATE OR REPLACE TRIGGER messages_removed AFTER DELETE ON messages REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed('200 + octet_length(subject) + octet_length(body)');

create table migrations (
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default now()
);

alter table migrations add constraint migrations_pkey PRIMARY KEY (name);

create table missed_announcements (
  id boolean not null default true,
  count bigint not null default 0
);

alter table missed_announcements add constraint missed_announcements_one CHECK (id);

alter table missed_announcements add constraint missed_announcements_pkey PRIMARY KEY (id);

create table owner_keys (
  id uuid not null,
  tenant_id uuid not null,
  prefix text not null,
  hash bytea not null,
  label text not null,
  expires_at timestamp(3) with time zone,
  revoked_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null default now(),
  created_by text,
  last_used_at timestamp(3) with time zone
);

alter table owner_keys add constraint owner_keys_hash_key UNIQUE (hash);

alter table owner_keys add constraint owner_keys_pkey PRIMARY KEY (id);

alter table owner_keys add constraint owner_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX owner_keys_tenant_idx ON owner_keys USING btree (tenant_id, id);

create table password_resets (
  id uuid not null,
  tenant_id uuid not null,
  user_id uuid not null,
  hash bytea not null,
  expires_at timestamp(3) with time zone not null,
  used_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null default now()
);

alter table password_resets add constraint password_resets_hash_key UNIQUE (hash);

alter table password_resets add constraint password_resets_pkey PRIMARY KEY (id);

alter table password_resets add constraint password_resets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX password_resets_age_idx ON password_resets USING btree (expires_at);

CREATE INDEX password_resets_user_idx ON password_resets USING btree (tenant_id, user_id);

create table platform_keys (
  id uuid not null,
  tenant_id uuid not null,
  api_id uuid not null,
  prefix text not null,
  hash bytea not null,
  role text not null,
  label text,
  expires_at timestamp(3) with time zone,
  revoked_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null default now(),
  created_by text,
  last_used_at timestamp(3) with time zone
);

alter table platform_keys add constraint platform_keys_hash_key UNIQUE (hash);

alter table platform_keys add constraint platform_keys_pkey PRIMARY KEY (id);

alter table platform_keys add constraint platform_keys_api_id_fkey FOREIGN KEY (tenant_id, api_id) REFERENCES apis(tenant_id, id) ON DELETE CASCADE;

alter table platform_keys add constraint platform_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX platform_keys_api_idx ON platform_keys USING btree (api_id, id);

CREATE INDEX platform_keys_tenant_idx ON platform_keys USING btree (tenant_id);

create table public_keys (
  id uuid not null,
  tenant_id uuid not null,
  prefix text not null,
  hash bytea not null,
  label text not null,
  role_id uuid not null,
  scopes jsonb not null,
  allowed_origins jsonb not null default '[]'::jsonb,
  rate_limit_per_min integer not null,
  rate_limit_per_day integer not null,
  expires_at timestamp(3) with time zone not null,
  revoked_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null default now(),
  created_by text,
  last_used_at timestamp(3) with time zone
);

alter table public_keys add constraint public_keys_hash_key UNIQUE (hash);

alter table public_keys add constraint public_keys_pkey PRIMARY KEY (id);

alter table public_keys add constraint public_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX public_keys_origins_idx ON public_keys USING gin (allowed_origins jsonb_path_ops) WHERE revoked_at IS NULL;

CREATE INDEX public_keys_tenant_idx ON public_keys USING btree (tenant_id, id);

create table quota_warnings (
  tenant_id uuid not null,
  day date not null,
  quota text not null
);

alter table quota_warnings add constraint quota_warnings_pkey PRIMARY KEY (tenant_id, day, quota);

alter table quota_warnings add constraint quota_warnings_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX quota_warnings_age_idx ON quota_warnings USING btree (day);

create table relay (
  id integer not null,
  leader uuid,
  watermark bigint not null default 0,
  heartbeat_at timestamp with time zone not null default now(),
  "position" jsonb
);

alter table relay add constraint relay_pkey PRIMARY KEY (id);

alter table relay add constraint relay_single CHECK ((id = 1));

create table rule_chains (
  root_event_id uuid not null,
  runs integer not null,
  updated_at timestamp(3) with time zone not null default now()
);

alter table rule_chains add constraint rule_chains_pkey PRIMARY KEY (root_event_id);

create table rule_images (
  event_id uuid not null,
  data jsonb not null,
  tenant_id uuid,
  bytes integer
);

alter table rule_images add constraint rule_images_pkey PRIMARY KEY (event_id);

CREATE INDEX rule_images_tenant_idx ON rule_images USING btree (tenant_id) INCLUDE (bytes);

create table rule_runs (
  "position" bigint generated always as identity not null,
  event_id uuid not null,
  rule_id uuid not null,
  tenant_id uuid not null,
  entity_id uuid not null,
  record_id uuid not null,
  version bigint not null,
  data jsonb,
  created_at timestamp(3) with time zone not null,
  updated_at timestamp(3) with time zone not null,
  created_by text,
  updated_by text,
  actor text,
  depth integer not null,
  root_event_id uuid not null,
  attempts integer not null default 0,
  next_at timestamp(3) with time zone not null default now(),
  runs integer not null default 1,
  is_blocked boolean not null default false
);

alter table rule_runs add constraint rule_runs_once_key UNIQUE (event_id, rule_id);

alter table rule_runs add constraint rule_runs_pkey PRIMARY KEY ("position");

CREATE INDEX rule_runs_due_idx ON rule_runs USING btree (tenant_id, is_blocked, next_at, "position");

CREATE INDEX rule_runs_record_idx ON rule_runs USING btree (record_id, tenant_id, "position");

CREATE OR REPLACE TRIGGER rule_runs_ended AFTER DELETE ON rule_runs FOR EACH ROW EXECUTE FUNCTION unblock_next_run();

create table search_rebuilds (
  entity_id uuid not null,
  tenant_id uuid not null,
  attempt uuid not null,
  after_id uuid,
  due_at timestamp with time zone not null default now()
);

alter table search_rebuilds add constraint search_rebuilds_pkey PRIMARY KEY (tenant_id, entity_id);

alter table search_rebuilds add constraint search_rebuilds_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX search_rebuilds_due_idx ON search_rebuilds USING btree (due_at);

create table slow_lists (
  tenant_id uuid not null,
  hour timestamp with time zone not null,
  entity_id uuid not null,
  combination text not null,
  seen bigint not null,
  total_ms bigint not null,
  durations integer[] not null
) with (fillfactor=50);

alter table slow_lists add constraint slow_lists_pkey PRIMARY KEY (tenant_id, hour, entity_id, combination);

alter table slow_lists add constraint slow_lists_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX slow_lists_age_idx ON slow_lists USING btree (hour);

create table stored (
  tenant_id uuid not null,
  kind text not null,
  slot integer not null,
  n bigint not null,
  bytes bigint not null
);

alter table stored add constraint stored_kind_check CHECK ((kind = ANY (ARRAY['messages'::text, 'idempotency_keys'::text])));

alter table stored add constraint stored_pkey PRIMARY KEY (tenant_id, kind, slot);

alter table stored add constraint stored_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

create table stream_processes (
  process_id uuid not null,
  heartbeat_at timestamp with time zone not null default clock_timestamp()
);

alter table stream_processes add constraint stream_processes_pkey PRIMARY KEY (process_id);

create table stream_subscriptions (
  tenant_id uuid not null,
  entity text not null,
  process_id uuid not null
);

alter table stream_subscriptions add constraint stream_subscriptions_pkey PRIMARY KEY (tenant_id, entity, process_id);

alter table stream_subscriptions add constraint stream_subscriptions_process_fkey FOREIGN KEY (process_id) REFERENCES stream_processes(process_id) ON DELETE CASCADE;

CREATE INDEX stream_subscriptions_process_idx ON stream_subscriptions USING btree (process_id);

create table stream_tickets (
  hash bytea not null,
  tenant_id uuid not null,
  opener jsonb not null,
  maker text not null,
  entities jsonb,
  events jsonb,
  expires_at timestamp(3) with time zone not null,
  follow jsonb
);

alter table stream_tickets add constraint stream_tickets_pkey PRIMARY KEY (hash);

alter table stream_tickets add constraint stream_tickets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX stream_tickets_expiry_idx ON stream_tickets USING btree (expires_at);

CREATE INDEX stream_tickets_maker_idx ON stream_tickets USING btree (tenant_id, maker);

create table tenants (
  id uuid not null,
  slug text not null,
  name text not null,
  status text not null default 'active'::text,
  settings jsonb not null default '{}'::jsonb,
  schema_version integer not null default 0,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  quotas jsonb not null default '{}'::jsonb,
  is_storage_measured boolean not null default true,
  domain_token text,
  domain_verified_at timestamp(3) with time zone,
  domain_checked_at timestamp(3) with time zone,
  made_by_tenant uuid,
  deletion uuid,
  definition_changes bigint not null default 0
);

alter table tenants add constraint tenants_pkey PRIMARY KEY (id);

alter table tenants add constraint tenants_slug_key UNIQUE (slug);

alter table tenants add constraint tenants_status_check CHECK ((status = ANY (ARRAY['active'::text, 'suspended'::text])));

CREATE UNIQUE INDEX tenants_custom_domain_key ON tenants USING btree ((settings ->> 'customDomain'::text)) WHERE domain_verified_at IS NOT NULL AND (settings ->> 'customDomain'::text) IS NOT NULL;

CREATE INDEX tenants_deletion_idx ON tenants USING btree (deletion) WHERE deletion IS NOT NULL;

CREATE INDEX tenants_made_by_idx ON tenants USING btree (made_by_tenant) WHERE made_by_tenant IS NOT NULL;

CREATE INDEX tenants_origins_idx ON tenants USING gin ((settings -> 'allowedOrigins'::text) jsonb_path_ops) WHERE status = 'active'::text;

CREATE INDEX tenants_pending_domain_idx ON tenants USING btree (domain_checked_at) WHERE domain_verified_at IS NULL AND (settings ->> 'customDomain'::text) IS NOT NULL;

create table usage_days (
  tenant_id uuid not null,
  day date not null,
  requests bigint not null default 0,
  reads bigint not null default 0,
  writes bigint not null default 0,
  events bigint not null default 0,
  deliveries bigint not null default 0,
  stream_ms bigint not null default 0,
  socket_ms bigint not null default 0,
  sent_bytes bigint not null default 0,
  claimed_deliveries bigint not null default 0
) with (fillfactor=50);

alter table usage_days add constraint usage_days_pkey PRIMARY KEY (tenant_id, day);

alter table usage_days add constraint usage_days_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX usage_days_age_idx ON usage_days USING btree (day);

create table user_sessions (
  id uuid not null,
  tenant_id uuid not null,
  user_id uuid not null,
  generation integer not null default 1,
  ends jsonb not null default '[]'::jsonb,
  user_agent text,
  address text not null,
  expires_at timestamp(3) with time zone not null,
  created_at timestamp(3) with time zone not null default now(),
  last_used_at timestamp(3) with time zone not null default now()
);

alter table user_sessions add constraint user_sessions_pkey PRIMARY KEY (id);

alter table user_sessions add constraint user_sessions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX user_sessions_expiry_idx ON user_sessions USING btree (expires_at);

CREATE INDEX user_sessions_user_idx ON user_sessions USING btree (tenant_id, user_id);

create table users_template (
  id uuid not null,
  email text not null,
  name text not null default ''::text,
  role text not null,
  password_hash text,
  is_active boolean not null default true,
  token_version integer not null default 1,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  search text not null generated always as (lower(((email || chr(10)) || name))) stored
);

create table views (
  id uuid not null,
  tenant_id uuid not null,
  slug text not null,
  entity_id uuid not null,
  name text not null,
  description text,
  filter_dsl jsonb not null default '{"validate": []}'::jsonb,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now()
);

alter table views add constraint views_pkey PRIMARY KEY (tenant_id, id);

alter table views add constraint views_slug_key UNIQUE (tenant_id, slug);

alter table views add constraint views_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

create table webhook_deliveries (
  id uuid not null default uuidv7(),
  subscription_id uuid not null,
  tenant_id uuid not null,
  event_id uuid not null,
  event_seq bigint not null,
  event_at timestamp(3) with time zone not null,
  record_id uuid not null,
  type text not null,
  status text not null default 'pending'::text,
  body text,
  attempt_count integer not null default 0,
  attempts_before integer not null default 0,
  http_status integer,
  error text,
  claim_id uuid,
  next_at timestamp with time zone not null default now(),
  created_at timestamp(3) with time zone not null default now(),
  completed_at timestamp(3) with time zone,
  trace text,
  attempts jsonb,
  is_counted boolean not null default false
) with (fillfactor=80);

alter table webhook_deliveries add constraint webhook_deliveries_pkey PRIMARY KEY (subscription_id, id);

alter table webhook_deliveries add constraint webhook_deliveries_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])));

CREATE INDEX webhook_deliveries_age_idx ON webhook_deliveries USING brin (id) WITH (autosummarize='on');

CREATE INDEX webhook_deliveries_claimed_idx ON webhook_deliveries USING btree (tenant_id, subscription_id) WHERE claim_id IS NOT NULL;

CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries USING btree (subscription_id, next_at) WHERE status = 'pending'::text;

CREATE INDEX webhook_deliveries_failed_idx ON webhook_deliveries USING btree (subscription_id, id) WHERE status = 'failed'::text;

CREATE INDEX webhook_deliveries_order_idx ON webhook_deliveries USING btree (subscription_id, record_id, event_seq) WHERE status = 'pending'::text;

create table webhook_health (
  subscription_id uuid not null,
  failing_since timestamp(3) with time zone,
  last_success_at timestamp(3) with time zone,
  last_failure_at timestamp(3) with time zone,
  last_error text
) with (fillfactor=50);

alter table webhook_health add constraint webhook_health_pkey PRIMARY KEY (subscription_id);

create table webhook_replays (
  subscription_id uuid not null,
  tenant_id uuid not null,
  from_at timestamp(3) with time zone not null,
  to_at timestamp(3) with time zone not null,
  is_of_failed boolean not null,
  "position" uuid not null,
  last_id uuid not null,
  created_at timestamp(3) with time zone not null default now(),
  since jsonb
);

alter table webhook_replays add constraint webhook_replays_pkey PRIMARY KEY (subscription_id);

create table webhook_subscriptions (
  id uuid not null,
  tenant_id uuid not null,
  entity_id uuid not null,
  entity text not null,
  event_types text[] not null,
  url text not null,
  secret text,
  description text,
  is_active boolean not null default true,
  created_by text,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  disabled_reason text,
  role text,
  filters text,
  field_ids uuid[],
  is_judged boolean not null generated always as (((role IS NOT NULL) OR (filters IS NOT NULL))) stored,
  secret_previous text,
  secret_previous_until timestamp(3) with time zone,
  include text[]
);

alter table webhook_subscriptions add constraint webhook_subscriptions_key UNIQUE (tenant_id, entity_id, url, event_types);

alter table webhook_subscriptions add constraint webhook_subscriptions_pkey PRIMARY KEY (id);

alter table webhook_subscriptions add constraint webhook_subscriptions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE;

CREATE INDEX webhook_subscriptions_active_idx ON webhook_subscriptions USING btree (entity_id) WHERE is_active;

CREATE INDEX webhook_subscriptions_judged_idx ON webhook_subscriptions USING btree (tenant_id) WHERE is_judged;

CREATE OR REPLACE TRIGGER webhook_subscriptions_deleted AFTER DELETE ON webhook_subscriptions FOR EACH ROW EXECUTE FUNCTION drop_deliveries();

create sequence events_seq;
