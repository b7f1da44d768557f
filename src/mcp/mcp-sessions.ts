// MCP sessions of the 2025 protocol revision: an id, valid for a day, and the tenant that the client selected.
// They are stored in Postgres, shared by all processes; only the credential that opened a session may use it.
// Later revisions have no sessions. Failures: 404. Contract: interface#mcp, decisions#mcp.
import type { Caller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { sql } from '../runtime/sql.ts';
import { newToken, sha256 } from '../runtime/tokens.ts';

export interface McpSession {
  id: string;
  owner: string;
  tenantSlug: string | null;
}

const hashOf = (id: string) => sql`decode(${sha256(id).toString('hex')}, 'hex')`;

function ownerOf({ kind, id }: Caller): string {
  return `${kind}:${id ?? ''}`;
}

/** Opens a session and returns its id. Ends the caller's oldest beyond the limit; expired ones are deleted in the background. */
export async function openMcpSession(app: App, caller: Caller): Promise<string> {
  const id = newToken('mcp_');
  await app.db.rows(sql`
    with excess as (
      delete from platform.mcp_sessions where id_hash = any(array(
        select id_hash from platform.mcp_sessions where owner = ${ownerOf(caller)}
        order by created_at desc offset ${LIMITS.mcpSession.perCaller - 1}::int))
    )
    insert into platform.mcp_sessions (id_hash, owner) values (${hashOf(id)}, ${ownerOf(caller)})`);
  return id;
}

/** The session that a request names; null when it names none, 404 for an unknown or expired one. */
export async function mcpSessionOf(app: App, headers: Headers): Promise<McpSession | null> {
  const id = headers.get('mcp-session-id');
  if (id === null) return null;
  const row = await app.db.first<Omit<McpSession, 'id'>>(sql`
    select owner, tenant_slug as "tenantSlug" from platform.mcp_sessions
    where id_hash = ${hashOf(id)} and created_at >= now() - make_interval(hours => ${LIMITS.mcpSession.ttlHours}::int)`);
  if (row === undefined) throw notFound('session');
  return { id, ...row };
}

/** 404 unless the caller opened the session. */
export function requireSessionOwner(session: McpSession, caller: Caller | null): void {
  if (caller === null || ownerOf(caller) !== session.owner) throw notFound('session');
}

export async function setSessionTenant(app: App, { id }: McpSession, slug: string): Promise<void> {
  await app.db.rows(sql`update platform.mcp_sessions set tenant_slug = ${slug} where id_hash = ${hashOf(id)}`);
}

export async function endMcpSession(app: App, { id }: McpSession): Promise<void> {
  await app.db.rows(sql`delete from platform.mcp_sessions where id_hash = ${hashOf(id)}`);
}
