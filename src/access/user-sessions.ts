// The sessions of users: each sign-in is a session, which its tokens name. A refresh begins a new generation of the session, and
// tokens of the previous generation end a minute later. Each process caches a session until it changes; a session that was ended
// has no row. Times are milliseconds since the epoch unless named otherwise.
// Failures: 401.
// Contract: browsers#sessions.
import { type App, perApp } from '../app.ts';
import { unauthorized } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { identifier, jsonb, literal, sql, type Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import type { SessionClaim } from './jwt.ts';
import { clientAddressOf, shownAddress } from './request-context.ts';

const { perUser, refreshedForS, supersededS, supersededMax, userAgentMax } = LIMITS.userSession;
const CACHED_SESSIONS = 20_000;

interface Session {
  user_id: string;
  generation: number;
  /** When the tokens of earlier generations end, the latest first. */
  ends: readonly number[];
  /** ISO 8601: when the tokens of the current generation expire. */
  expires_at: string;
}

const cacheOf = perApp((app) => app.invalidations.cache<Session | undefined>('session', CACHED_SESSIONS));

const keyOf = (tenantId: string, sessionId: string): string => `${tenantId}:${sessionId}`;

/** The user to whom a session belongs. */
interface Owner {
  tenantId: string;
  userId: string;
}

/** The user's session, if it has neither been ended nor expired. */
async function sessionOf(app: App, { tenantId, userId }: Owner, id: string): Promise<Session | undefined> {
  const session = await cacheOf(app).get(keyOf(tenantId, id), () =>
    app.db.first<Session>(sql`
      select user_id, generation, ends, expires_at from platform.user_sessions
      where id = ${id}::uuid and tenant_id = ${tenantId}::uuid`),
  );
  const isLive = session?.user_id === userId && Date.parse(session.expires_at) > Date.now();
  return isLive ? session : undefined;
}

/** Whether the user's cached session is live now; false when it is not cached. Counts as a use of the session. */
export function isSessionKnownLive(app: App, { tenantId, userId }: Owner, id: string): boolean {
  const session = cacheOf(app).peek(keyOf(tenantId, id));
  if (session === undefined || session.user_id !== userId || Date.parse(session.expires_at) <= Date.now()) return false;
  app.lastUsed.note('user_sessions', id);
  return true;
}

/** 401 when the token's session has ended, or its generation has been superseded for a minute. */
export async function requireLiveSession(app: App, owner: Owner, { id, generation }: SessionClaim): Promise<void> {
  let session = await sessionOf(app, owner, id);
  if (session !== undefined && generation > session.generation) {
    // Another process has just refreshed it.
    cacheOf(app).drop(keyOf(owner.tenantId, id));
    session = await sessionOf(app, owner, id);
  }
  if (session === undefined || !isAccepted(session, generation)) throw unauthorized();
  app.lastUsed.note('user_sessions', id);
}

function isAccepted({ generation: current, ends }: Session, generation: number): boolean {
  if (generation === current) return true;
  const end = ends[current - 1 - generation];
  return end !== undefined && Date.now() < end;
}

/** The claim of the session's current generation and its expiry, Unix time in seconds. 401 when it has ended. */
export async function currentClaim(app: App, owner: Owner, id: string) {
  const session = await sessionOf(app, owner, id);
  if (session === undefined) throw unauthorized();
  const expiresAtS = Math.floor(Date.parse(session.expires_at) / 1_000);
  return { session: { id, generation: session.generation }, expiresAtS };
}

/**
 * Opens a session for a user who has just proved their password; its tokens must have this version. Ends the user's expired
 * sessions and, if there are too many, the ones unused for longest. Undefined when the user has changed meanwhile.
 */
export async function openSession(
  app: App,
  tenant: Tenant,
  user: { id: string; version: number },
  request: Request,
  expiresAtS: number,
): Promise<SessionClaim | undefined> {
  const id = newId();
  const own = sql`tenant_id = ${tenant.id}::uuid and user_id = ${user.id}::uuid`;
  // The lock serializes this with a change of the password, which ends the sessions.
  const row = await app.db.first<{ ended: string[] }>(sql`
    with signed_in as (
      select id from ${identifier(tenant.schema, 'users')}
      where id = ${user.id}::uuid and token_version = ${user.version}::int and is_active
      for share
    ), ended as (
      delete from platform.user_sessions
      where ${own} and (expires_at <= now() or id in (
        select id from platform.user_sessions where ${own}
        order by last_used_at desc, id desc offset ${perUser - 1}::int))
      returning id
    ), opened as (
      insert into platform.user_sessions (id, tenant_id, user_id, user_agent, address, expires_at)
      select ${id}::uuid, ${tenant.id}::uuid, s.id, ${userAgentOf(request)}, ${addressOf(request)},
        to_timestamp(${expiresAtS}::bigint)
      from signed_in as s
      returning id
    )
    select coalesce((select jsonb_agg(id) from ended), '[]') as ended from opened`);
  if (row === undefined) return undefined;
  await publishEnded(app, tenant, row.ended);
  return { id, generation: 1 };
}

/**
 * Begins a new generation whose tokens expire at a time in Unix seconds. A token that was superseded within the last minute
 * joins the current generation. 401 when the session has ended, or its sign-in is too long ago.
 */
export async function refreshSession(
  app: App,
  tenant: Tenant,
  userId: string,
  { id, generation }: SessionClaim,
  request: Request,
  expiresAtS: number,
): Promise<SessionClaim> {
  const endsAt = Date.now() + supersededS * 1_000;
  const isCurrent = sql`generation = ${generation}::int`;
  const row = await app.db.first<{ generation: number }>(sql`
    update platform.user_sessions
    set generation = case when ${isCurrent} then generation + 1 else generation end,
      ends = case when ${isCurrent}
        then jsonb_path_query_array(${jsonb([endsAt])} || ends, ${literal(`$[0 to ${supersededMax - 1}]`)})
        else ends end,
      expires_at = greatest(expires_at, to_timestamp(${expiresAtS}::bigint)),
      user_agent = ${userAgentOf(request)}, address = ${addressOf(request)}, last_used_at = now()
    where id = ${id}::uuid and tenant_id = ${tenant.id}::uuid and user_id = ${userId}::uuid
      and created_at > now() - make_interval(secs => ${refreshedForS}::int)
    returning generation`);
  if (row === undefined) throw unauthorized('this session can no longer be refreshed; sign in again');
  await app.invalidations.publish('session', keyOf(tenant.id, id));
  return { id, generation: row.generation };
}

/** Ends one or all sessions of a user. Resolves to the ids of the ended sessions. */
export async function endSessions(app: App, tenant: Tenant, userId: string, id?: string): Promise<string[]> {
  const rows = await app.db.rows<{ id: string }>(sql`
    delete from platform.user_sessions
    where tenant_id = ${tenant.id}::uuid and user_id = ${userId}::uuid
      ${id === undefined ? sql`` : sql`and id = ${id}::uuid`}
    returning id`);
  const ids = rows.map((row) => row.id);
  await publishEnded(app, tenant, ids);
  return ids;
}

/** Ends all sessions of a user, in the transaction of a change of the user that ends the tokens. */
export async function dropSessions(tx: Tx, tenant: Pick<Tenant, 'id'>, userId: string): Promise<void> {
  await tx.rows(sql`
    delete from platform.user_sessions where tenant_id = ${tenant.id}::uuid and user_id = ${userId}::uuid`);
}

async function publishEnded(app: App, tenant: Tenant, ids: readonly string[]): Promise<void> {
  const keys = ids.map((id) => keyOf(tenant.id, id));
  await app.invalidations.publish('session', keys);
}

function addressOf(request: Request): string {
  return shownAddress(clientAddressOf(request));
}

function userAgentOf(request: Request): string | null {
  return request.headers.get('user-agent')?.toWellFormed().slice(0, userAgentMax) ?? null;
}
