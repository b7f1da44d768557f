// MCP sessions of the 2025 protocol revision: an id that is valid for a day, the tenant that the client selected, and the user
// that it is logged in as. Sessions are stored in Postgres, shared by all processes; only the credential that opened a session
// may use it. A session that was opened without a credential is protected by its id, which is secret. Anonymous clients may open
// a bounded number of sessions a day, per address and in total; beyond that they continue without a session. Later revisions
// have no sessions.
// Failures: 404.
// Contract: interface#mcp, decisions#mcp.
import { type Caller, credentialOf } from '../access/caller.ts';
import type { Claims } from '../access/jwt.ts';
import { clientNetworkOf } from '../access/request-context.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { jsonb, sql } from '../runtime/sql.ts';
import { newToken, sha256 } from '../runtime/tokens.ts';

export interface McpSession {
  id: string;
  owner: string;
  tenantSlug: string | null;
  login: Claims | null;
}

const hashOf = (id: string) => sql`decode(${sha256(id).toString('hex')}, 'hex')`;

const NOBODY = 'nobody';

function ownerOf(caller: Caller | null): string {
  return caller === null ? NOBODY : credentialOf(caller);
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

const DAY_MS = 86_400_000;

/**
 * Opens a session without a credential; null when anonymous clients have opened too many today, or when the number cannot be
 * found out.
 */
export async function openStrangersSession(app: App, request: Request): Promise<string | null> {
  const { strangersPerAddress, strangers } = LIMITS.mcpSession;
  const windows = [
    { key: `mcp:strangers:${clientNetworkOf(request)}`, quota: strangersPerAddress, windowMs: DAY_MS },
    { key: 'mcp:strangers', quota: strangers, windowMs: DAY_MS },
  ];
  if (!app.broker.connected()) return null;
  const counts = await app.broker.countAll(windows);
  if (counts.length < windows.length || counts.some(({ count }, i) => count > (windows[i]?.quota ?? 0))) return null;
  const id = newToken('mcp_');
  await app.db.rows(sql`insert into platform.mcp_sessions (id_hash, owner) values (${hashOf(id)}, ${NOBODY})`);
  return id;
}

/** The session that a request names; null when it names none, 404 for an unknown or expired one. */
export async function mcpSessionOf(app: App, headers: Headers): Promise<McpSession | null> {
  const id = headers.get('mcp-session-id');
  if (id === null) return null;
  const row = await app.db.first<Omit<McpSession, 'id'>>(sql`
    select owner, tenant_slug as "tenantSlug", login from platform.mcp_sessions
    where id_hash = ${hashOf(id)} and created_at >= now() - make_interval(hours => ${LIMITS.mcpSession.ttlHours}::int)`);
  if (row === undefined) throw notFound('session');
  return { id, ...row };
}

/** 404 unless the caller opened the session. */
export function requireSessionOwner(session: McpSession, caller: Caller | null): void {
  if (ownerOf(caller) !== session.owner) throw notFound('session');
}

export async function setSessionTenant(app: App, { id }: McpSession, slug: string): Promise<void> {
  await app.db.rows(sql`update platform.mcp_sessions set tenant_slug = ${slug} where id_hash = ${hashOf(id)}`);
}

/** Later calls act as the user of the token, in its tenant. */
export async function logSessionIn(app: App, { id }: McpSession, login: Claims): Promise<void> {
  await app.db.rows(sql`
    update platform.mcp_sessions set login = ${jsonb(login)}, tenant_slug = null where id_hash = ${hashOf(id)}`);
}

export async function endMcpSession(app: App, { id }: McpSession): Promise<void> {
  await app.db.rows(sql`delete from platform.mcp_sessions where id_hash = ${hashOf(id)}`);
}
