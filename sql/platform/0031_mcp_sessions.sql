-- The tenant that an MCP session has selected. A session belongs to the credential that opened it;
-- its id is a secret of the client, so only a hash is kept.

create table platform.mcp_sessions (
  id_hash bytea not null,
  owner text not null,
  tenant_slug text,
  created_at timestamptz(3) not null default now(),
  constraint mcp_sessions_pkey primary key (id_hash)
);

create index mcp_sessions_age_idx on platform.mcp_sessions (created_at);
