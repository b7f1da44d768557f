// Credentials that belong to one tenant, and the Caller each becomes. What a credential says of
// itself is cached by its hash; what a role allows is looked up anew for every request, from a
// cache of its own. Used by requests and by streams alike. Contract: interface#credentials.
import { type App, perApp } from '../app.ts';
import { unauthorized } from '../errors.ts';
import { identifier, type Sql, sql } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import { type Tenant, tenantById } from '../tenants/tenants.ts';
import type { Caller, TenantCaller } from './caller.ts';
import type { Credential } from './credential.ts';
import { type Claims, Tokens } from './jwt.ts';
import { FULL_RIGHTS, type Operation, type Rights } from './rights.ts';
import { isAdminRole, rightsOf, rolesOf } from './role-store.ts';

/** What is kept of a stored key. Members that a kind does not have are null. */
interface KeyRow {
  id: string;
  tenant_id: string;
  expires_at: string | null;
  role: string | null;
  role_id: string | null;
  /** Platform keys: operations by entity and role, from the API's definition; null when the role is not the API's any more. */
  api_permissions: Record<string, Record<string, Operation[]>> | null;
  scopes: string[] | null;
  allowed_origins: string[] | null;
  rate_limit_per_min: number | null;
  rate_limit_per_day: number | null;
}

interface UserRow {
  id: string;
  email: string;
  role: string;
  is_active: boolean;
  token_version: number;
}

interface BotRow {
  id: string;
  name: string;
  permissions: { entities?: Record<string, Operation[]> };
}

const CACHED_CREDENTIALS = 20_000;
const cachesOf = perApp((app) => ({
  keys: app.invalidations.cache<KeyRow | undefined>('credential', CACHED_CREDENTIALS),
  users: app.invalidations.cache<UserRow | undefined>('user', CACHED_CREDENTIALS),
  bots: app.invalidations.cache<BotRow | undefined>('bot', CACHED_CREDENTIALS),
  tokens: new Tokens(app.config.jwtSecrets),
}));

/** The process's signer and verifier of tokens. */
export function tokensOf(app: App): Tokens {
  return cachesOf(app).tokens;
}

/** The caller behind a credential of one tenant. 401 when it is unknown, revoked, expired, or its tenant is gone. */
export async function resolveCaller(app: App, credential: Credential): Promise<TenantCaller> {
  if (credential.kind === 'token') return tokenCaller(app, credential.value);
  const row = await storedKey(app, credential);
  if (row === undefined || isPast(row.expires_at)) throw unauthorized();
  const tenant = await tenantById(app, row.tenant_id);
  if (tenant === null) throw unauthorized();
  if (credential.kind === 'platform_key') return platformKeyCaller(app, tenant, row);
  if (credential.kind === 'public_key') return publicKeyCaller(app, tenant, row);
  return {
    ...BLANK,
    kind: credential.kind as 'owner_key' | 'admin_session',
    id: row.id,
    tenant,
    role: 'owner',
    rights: FULL_RIGHTS,
    rightsKey: 'all',
    isTenantAdmin: true,
  };
}

const BLANK = { email: null, isTenantAdmin: false, triggeredBy: 'api' } as const satisfies Partial<Caller>;

function isPast(time: string | null): boolean {
  return time !== null && Date.parse(time) <= Date.now();
}

/** The operations come from the API's definition, the confines from the tenant's role of that name. */
async function platformKeyCaller(app: App, tenant: Tenant, row: KeyRow): Promise<TenantCaller> {
  const role = row.role ?? '';
  const permissions: Record<string, Operation[]> = {};
  for (const [resource, byRole] of Object.entries(row.api_permissions ?? {})) {
    if (Object.hasOwn(byRole, role)) permissions[resource] = byRole[role] ?? [];
  }
  const restrictions = (await rolesOf(app, tenant)).byName.get(role)?.entities ?? {};
  const rights: Rights = { isUnlimited: false, permissions, restrictions };
  return { ...BLANK, kind: 'platform_key', id: row.id, tenant, role, rights, rightsKey: `key:${row.id}` };
}

/** Reads what its role reads, and only under the scope for it. */
async function publicKeyCaller(app: App, tenant: Tenant, row: KeyRow): Promise<TenantCaller> {
  const role = (await rolesOf(app, tenant)).byId.get(row.role_id ?? '');
  const given = rightsOf(role);
  const scopes = row.scopes ?? [];
  const readable = Object.entries(given.permissions).filter(([, operations]) => operations.includes('read'));
  const rights: Rights = {
    isUnlimited: false,
    permissions: scopes.includes('records:read')
      ? Object.fromEntries(readable.map(([resource]): [string, Operation[]] => [resource, ['read']]))
      : {},
    restrictions: given.restrictions,
  };
  const publicKey = {
    allowedOrigins: row.allowed_origins ?? [],
    perMinute: row.rate_limit_per_min ?? 0,
    perDay: row.rate_limit_per_day ?? 0,
  };
  const identity = { kind: 'public_key', id: row.id, tenant, role: role?.name ?? null } as const;
  return { ...BLANK, ...identity, rights, rightsKey: `key:${row.id}`, scopes, publicKey };
}

async function tokenCaller(app: App, token: string): Promise<TenantCaller> {
  const claims = await tokensOf(app).verify(token);
  const tenant = claims === undefined ? null : await tenantById(app, claims.tenantId);
  if (claims === undefined || tenant === null) throw unauthorized();
  const expiresAt = new Date(claims.expiresAtS * 1_000).toISOString();
  const caller = claims.kind === 'bot' ? await botCaller(app, tenant, claims) : await userCaller(app, tenant, claims);
  return { ...caller, expiresAt };
}

async function userCaller(app: App, tenant: Tenant, claims: Claims): Promise<TenantCaller> {
  const { users } = cachesOf(app);
  const user = await users.get(`${tenant.id}:${claims.subject}`, () => findUser(app, tenant, claims.subject));
  if (user === undefined || !user.is_active || user.token_version !== claims.version) throw unauthorized();
  const rights = rightsOf((await rolesOf(app, tenant)).byName.get(user.role));
  const { id, email, role } = user;
  const kind = claims.kind === 'developer' ? 'developer' : 'user';
  const isTenantAdmin = isAdminRole(role);
  return { kind, id, tenant, role, email, rights, rightsKey: `user:${id}`, isTenantAdmin, triggeredBy: 'api' };
}

/** A revoked bot's tokens stay good until they run out; a deleted tenant's do not. */
async function botCaller(app: App, tenant: Tenant, claims: Claims): Promise<TenantCaller> {
  const bot = await cachesOf(app).bots.get(claims.subject, () => findBot(app, tenant, claims.subject));
  if (bot === undefined) throw unauthorized();
  const rights: Rights = { isUnlimited: false, permissions: bot.permissions.entities ?? {}, restrictions: {} };
  return { ...BLANK, kind: 'bot', id: bot.id, tenant, role: null, name: bot.name, rights, rightsKey: `bot:${bot.id}` };
}

function storedKey(app: App, credential: Credential): KeyRow | undefined | Promise<KeyRow | undefined> {
  const hash = sha256(credential.value).toString('hex');
  return cachesOf(app).keys.get(hash, () => app.db.first<KeyRow>(keyQuery(credential.kind, hash)));
}

function keyQuery(kind: Credential['kind'], hash: string): Sql {
  const matches = sql`k.hash = decode(${hash}, 'hex')`;
  switch (kind) {
    case 'owner_key':
      return sql`
        select k.id, k.tenant_id, k.expires_at from platform.owner_keys as k
        where ${matches} and k.revoked_at is null`;
    case 'admin_session':
      return sql`
        select k.id, k.tenant_id, k.expires_at from platform.admin_sessions as k
        where ${matches} and k.ended_at is null`;
    case 'platform_key':
      return sql`
        select k.id, k.tenant_id, k.expires_at, k.role,
          case when a.roles @> to_jsonb(k.role) then a.permissions end as api_permissions
        from platform.platform_keys as k
        join platform.apis as a on a.id = k.api_id
        where ${matches} and k.revoked_at is null`;
    default:
      return sql`
        select k.id, k.tenant_id, k.expires_at, k.role_id, k.scopes, k.allowed_origins, k.rate_limit_per_min,
          k.rate_limit_per_day
        from platform.public_keys as k
        where ${matches} and k.revoked_at is null`;
  }
}

async function findUser(app: App, tenant: Tenant, id: string): Promise<UserRow | undefined> {
  return app.db.first<UserRow>(sql`
    select id, email, role, is_active, token_version from ${identifier(tenant.schema, 'users')}
    where id = ${id}::uuid`);
}

async function findBot(app: App, tenant: Tenant, id: string): Promise<BotRow | undefined> {
  return app.db.first<BotRow>(sql`
    select id, name, permissions from platform.bots where id = ${id}::uuid and tenant_id = ${tenant.id}::uuid`);
}
