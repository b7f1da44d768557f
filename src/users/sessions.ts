// A user's sessions: sign out, refresh the token, list and end sign-ins. Every process refuses the tokens of an ended session
// within a second, and its streams end. Failures: 401, 403 for callers other than users, 404, 409 for a token that was issued
// before sessions were stored. Contract: browsers#sessions.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { propertiesOf } from '../access/credential-kinds.ts';
import type { SessionClaim } from '../access/jwt.ts';
import { countRequest } from '../access/rate-limit.ts';
import { endSessions, refreshSession } from '../access/user-sessions.ts';
import type { App } from '../app.ts';
import { conflict, forbidden, notFound, unauthorized } from '../errors.ts';
import { check } from '../http/check.ts';
import { nullable, open, optional, type Revoked, Timestamp, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import { PersonSchema } from './person.ts';
import { issueToken, unixTimeIn } from './sign-in.ts';
import { usersTable } from './users.ts';

export const SessionSchema = Type.Object(
  {
    id: Uuid,
    createdAt: Timestamp,
    lastUsedAt: Type.String({ ...Timestamp, description: 'accurate to a minute' }),
    userAgent: nullable(Type.String(), { description: 'as the client sent it', examples: ['Mozilla/5.0'] }),
    address: Type.String({ examples: ['203.0.113.7'] }),
    current: Type.Boolean({ description: 'whether the request’s own token belongs to it' }),
  },
  { $id: 'Session' },
);
type Session = Static<typeof SessionSchema>;

export const SignOut = open({
  all: optional(Type.Boolean({ description: 'all sessions of the user, not only this one', examples: [false] })),
});
export const RefreshedSchema = Type.Object({ token: Type.String(), expiresAt: Timestamp, user: PersonSchema });

/** Ends the caller's session, or all of the user's. */
export async function signOut(
  app: App,
  caller: TenantCaller,
  body: Static<typeof SignOut>,
): Promise<{ loggedOut: true }> {
  const { userId, session } = requireSession(caller);
  const { all } = check(SignOut, body);
  await endSessions(app, caller.tenant, userId, all === true ? undefined : session.id);
  return { loggedOut: true };
}

/** A new token of the caller's session; the presented one ends a minute later. 401 past the session's last refresh, 429 too often. */
export async function refreshToken(
  app: App,
  caller: TenantCaller,
  request: Request,
): Promise<Static<typeof RefreshedSchema>> {
  const { tenant } = caller;
  const { userId, session } = requireSession(caller);
  const { refreshesPerMin: quota } = LIMITS.userSession;
  await countRequest(app, request, [{ name: 'refreshes', key: `refreshes:${session.id}`, quota, windowS: 60 }]);
  const expiresAtS = unixTimeIn(LIMITS.login.ttlS);
  const refreshed = await refreshSession(app, tenant, userId, session, request, expiresAtS);
  const user = await app.db.first<Static<typeof PersonSchema> & { token_version: number }>(sql`
    select id, email, name, role, token_version from ${usersTable(tenant)} where id = ${userId}::uuid`);
  if (user === undefined) throw unauthorized();
  const { token_version: version, ...person } = user;
  const claims = { kind: 'user', tenantId: tenant.id, subject: userId, version, expiresAtS } as const;
  return { ...(await issueToken(app, { ...claims, session: refreshed })), user: person };
}

/** The caller's own sessions, the newest first. */
export async function listSessions(app: App, caller: TenantCaller): Promise<Session[]> {
  const userId = requireUser(caller);
  const rows = await app.db.rows<Omit<Session, 'current'>>(sql`
    select id, created_at as "createdAt", last_used_at as "lastUsedAt", user_agent as "userAgent", address
    from platform.user_sessions
    where tenant_id = ${caller.tenant.id}::uuid and user_id = ${userId}::uuid and expires_at > now()
    order by id desc`);
  return rows.map((row) => ({ ...row, current: row.id === caller.session?.id }));
}

/** Ends one of the caller's own sessions. 404. */
export async function revokeSession(app: App, caller: TenantCaller, id: string): Promise<Static<typeof Revoked>> {
  const userId = requireUser(caller);
  const [ended] = isUuid(id) ? await endSessions(app, caller.tenant, userId, id) : [];
  if (ended === undefined) throw notFound('session');
  return { id: ended, revoked: true };
}

/** The id of the user who calls. 403 for other callers. */
function requireUser({ kind, id }: TenantCaller): string {
  if (id === null || propertiesOf(kind).account !== 'user') throw forbidden('only a user has sessions');
  return id;
}

/** The session of the user token that calls. */
function requireSession(caller: TenantCaller): { userId: string; session: SessionClaim } {
  const userId = requireUser(caller);
  if (caller.kind !== 'user') throw forbidden('this token was not issued by a login; it has no session');
  if (caller.session === undefined) throw conflict('this token has no session, and ends by itself; log in again');
  return { userId, session: caller.session };
}
