-- The user that an MCP session is logged in as: the claims of the token, which is signed again for each call.

alter table platform.mcp_sessions add column login jsonb;
