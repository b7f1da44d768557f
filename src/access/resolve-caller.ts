// Resolves a tenant-bound credential to its caller, for requests and streams. The stored credential is cached
// by its hash until it is invalidated; its role's rights come from the role cache on every call.
// Failures: 401. Contract: interface#credentials, decisions#changes-of-rights.
import { type App, perApp } from '../app.ts';
import { unauthorized } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { SharedStatements } from '../runtime/shared-statements.ts';
import { identifier, type Sql, sql } from '../runtime/sql.ts';
import { jsonBytes } from '../runtime/text.ts';
import { sha256 } from '../runtime/tokens.ts';
import { type Tenant, tenantById } from '../tenants/tenants.ts';
import type { BotLimits } from './bot-limits.ts';
import type { TenantCaller } from './caller.ts';
import type { Credential, StoredKind, TokenKind } from './credential-kinds.ts';
import { type Claims, Tokens } from './jwt.ts';
import { FULL_RIGHTS, NO_RIGHTS, type Operation, readRightsOf } from './rights.ts';
import { isAdminRole, rightsOf, rolesOf } from './role-store.ts';
import { requireLiveSession } from './user-sessions.ts';

const CACHED_CREDENTIALS = 20_000;
/**
 * The sizes of cache entries: a key of an API, or a bot, has permissions of up to 64 KiB, and a tenant has tens of thousands of
 * keys.
 */
const BYTES = {
  max: LIMITS.key.cachedBytesMax,
  of: (row: unknown): number => (row === undefined ? 0 : jsonBytes(row)),
};
/** The most credentials that one statement looks up. */
const LOOKUPS_MAX = 64;
const cachesOf = perApp((app) => ({
  stored: app.invalidations.cache<StoredRow | undefined>('credential', CACHED_CREDENTIALS, BYTES),
  users: app.invalidations.cache<UserRow | undefined>('user', CACHED_CREDENTIALS),
  bots: app.invalidations.cache<BotRow | undefined>('bot', CACHED_CREDENTIALS, BYTES),
  tokens: new Tokens(app.config.jwtSecrets),
}));

/** The scope under which a public key reads: over REST, or over the WebSocket. */
export type PublicScope = 'records:read' | 'channels:read';

/**
 * The caller of a tenant-bound credential; a public key without the scope has no rights. 401 when the credential is
 * unknown, revoked or expired, or its tenant no longer exists.
 */
export async function resolveCaller(
  app: App,
  { kind, value }: Credential,
  scope: PublicScope = 'records:read',
): Promise<TenantCaller> {
  if (kind === 'token') return tokenCaller(app, value);
  if (!isStored(kind)) throw unauthorized();
  return storedCaller(app, kind, sha256(value).toString('hex'), scope);
}

/** Signs and verifies this App's tokens. */
export function tokensOf(app: App): Tokens {
  return cachesOf(app).tokens;
}

/** Always the same object, so that values derived from rights can be cached by it. */
const NONE = {};
const API_CALLER = { email: null, isTenantAdmin: false, triggeredBy: 'api' } as const;

// Keys and sessions, which are found by their hash.

interface StoredRow {
  /** The hash in hexadecimal. */
  hash: string;
  id: string;
  tenant_id: string;
  expires_at: string | null;
}

interface StoredCredential<Row extends StoredRow = StoredRow> {
  /** The statement without its end: it ends with `=`, and the hashes are appended. */
  select: Sql;
  toCaller(app: App, tenant: Tenant, row: Row, scope: PublicScope): TenantCaller | Promise<TenantCaller>;
}

interface PlatformKeyRow extends StoredRow {
  api_id: string;
  role: string;
  /** Operations by resource, from the API's definition; null when it grants the role none. */
  permissions: Record<string, Operation[]> | null;
}

interface PublicKeyRow extends StoredRow {
  role_id: string;
  scopes: string[];
  allowed_origins: string[];
  rate_limit_per_min: number;
  rate_limit_per_day: number;
}

const STORED: { readonly [Kind in StoredKind]: StoredCredential } = {
  owner_key: {
    select: sql`
      select encode(k.hash, 'hex') as hash, k.id, k.tenant_id, k.expires_at from platform.owner_keys as k
      where k.revoked_at is null and k.hash =`,
    toCaller: (_, tenant, row) => ownerCaller('owner_key', tenant, row),
  },
  admin_session: {
    select: sql`
      select encode(k.hash, 'hex') as hash, k.id, k.tenant_id, k.expires_at from platform.admin_sessions as k
      where k.ended_at is null and k.hash =`,
    toCaller: (_, tenant, row) => ownerCaller('admin_session', tenant, row),
  },
  platform_key: stored<PlatformKeyRow>({
    select: sql`
      select encode(k.hash, 'hex') as hash, k.id, k.tenant_id, k.expires_at, k.role, k.api_id,
        case when a.roles @> to_jsonb(k.role) then (
          select jsonb_object_agg(p.resource, p.by_role -> k.role)
          from jsonb_each(a.permissions) as p (resource, by_role)
          where p.by_role ? k.role
        ) end as permissions
      from platform.platform_keys as k
      join platform.apis as a on a.id = k.api_id and a.tenant_id = k.tenant_id
      where k.revoked_at is null and k.hash =`,
    toCaller: platformKeyCaller,
  }),
  public_key: stored<PublicKeyRow>({
    select: sql`
      select encode(k.hash, 'hex') as hash, k.id, k.tenant_id, k.expires_at, k.role_id, k.scopes, k.allowed_origins,
        k.rate_limit_per_min, k.rate_limit_per_day
      from platform.public_keys as k
      where k.revoked_at is null and k.hash =`,
    toCaller: publicKeyCaller,
  }),
};

/** Erases the row type of an entry; its `select` returns these columns. */
function stored<Row extends StoredRow>(credential: StoredCredential<Row>): StoredCredential {
  return credential as unknown as StoredCredential;
}

export function isStored(kind: string): kind is StoredKind {
  return Object.hasOwn(STORED, kind);
}

/** The caller of the key or session with this hash, in hexadecimal. `isUse` is false for a check that is not a use. 401. */
export async function storedCaller(
  app: App,
  kind: StoredKind,
  hash: string,
  scope: PublicScope,
  isUse = true,
): Promise<TenantCaller> {
  const { toCaller } = STORED[kind];
  const row = await cachesOf(app).stored.get(hash, () => findStored(app, kind, hash));
  if (row === undefined || isPast(row.expires_at)) throw unauthorized();
  const tenant = await tenantById(app, row.tenant_id);
  if (tenant === null) throw unauthorized();
  if (isUse && kind !== 'admin_session') app.lastUsed.note(`${kind}s`, row.id);
  return toCaller(app, tenant, row, scope);
}

/** Concurrent lookups share a statement, so that a client that tries many keys causes fewer statements. */
const lookups = new SharedStatements<string, StoredRow | null>({ itemsMax: LOOKUPS_MAX });

async function findStored(app: App, kind: StoredKind, hash: string): Promise<StoredRow | undefined> {
  const found = await lookups.run(app, kind, hash, async (hashes) => {
    const wanted = sql`any(array(select decode(h, 'hex') from unnest(${[...hashes]}::text[]) as h))`;
    const rows = await app.db.rows<StoredRow>(sql`${STORED[kind].select} ${wanted}`);
    const byHash = new Map(rows.map((row) => [row.hash, row]));
    return hashes.map((one) => byHash.get(one) ?? null);
  });
  return found ?? undefined;
}

/** Whether the cached key or session with this hash is valid now; false when it is not cached. */
export function isStoredKnownGood(app: App, kind: StoredKind, hash: string): boolean {
  const row = cachesOf(app).stored.peek(hash);
  if (row === undefined || isPast(row.expires_at)) return false;
  if (kind !== 'admin_session') app.lastUsed.note(`${kind}s`, row.id);
  return true;
}

function isPast(time: string | null): boolean {
  return time !== null && Date.parse(time) <= Date.now();
}

function ownerCaller(kind: 'owner_key' | 'admin_session', tenant: Tenant, { id }: StoredRow): TenantCaller {
  return { ...API_CALLER, kind, id, tenant, role: 'owner', rights: FULL_RIGHTS, isTenantAdmin: true };
}

/** Operations come from the API's definition, restrictions from the tenant's role of that name. */
async function platformKeyCaller(app: App, tenant: Tenant, row: PlatformKeyRow): Promise<TenantCaller> {
  const { id, role, api_id: apiId } = row;
  const permissions = row.permissions ?? NONE;
  const restrictions = (await rolesOf(app, tenant)).byName.get(role)?.entities ?? NONE;
  const rights = { isUnlimited: false, permissions, restrictions };
  return { ...API_CALLER, kind: 'platform_key', id, apiId, tenant, role, rights };
}

/** The caller of a public key: it has the read permissions of its role. */
async function publicKeyCaller(app: App, tenant: Tenant, row: PublicKeyRow, scope: PublicScope): Promise<TenantCaller> {
  const role = (await rolesOf(app, tenant)).byId.get(row.role_id);
  const { id, scopes } = row;
  const rights = scopes.includes(scope) ? readRightsOf(rightsOf(role)) : NO_RIGHTS;
  const publicKey = {
    allowedOrigins: row.allowed_origins,
    perMinute: row.rate_limit_per_min,
    perDay: row.rate_limit_per_day,
  };
  return { ...API_CALLER, kind: 'public_key', id, tenant, role: role?.name ?? null, rights, scopes, publicKey };
}

// Tokens, which carry their tenant and subject.

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
  limits: BotLimits;
}

type ToCaller = (app: App, tenant: Tenant, claims: Claims) => Promise<TenantCaller>;
const TOKEN_CALLERS: { readonly [Kind in TokenKind]: ToCaller } = {
  user: userCaller,
  developer: userCaller,
  bot: botCaller,
};

async function tokenCaller(app: App, token: string): Promise<TenantCaller> {
  const claims = await tokensOf(app).verify(token);
  if (claims === undefined) throw unauthorized();
  return callerOfClaims(app, claims);
}

/** The caller of a verified token. `isUse` is false for a check that is not a use. 401 when the token has expired or ended. */
export async function callerOfClaims(app: App, claims: Claims, isUse = true): Promise<TenantCaller> {
  const tenant = await tenantById(app, claims.tenantId);
  if (tenant === null || claims.expiresAtS * 1_000 <= Date.now()) throw unauthorized();
  const caller = await TOKEN_CALLERS[claims.kind](app, tenant, claims);
  if (isUse && claims.kind === 'bot') app.lastUsed.note('bots', claims.subject);
  return { ...caller, expiresAt: new Date(claims.expiresAtS * 1_000).toISOString() };
}

async function userCaller(app: App, tenant: Tenant, claims: Claims): Promise<TenantCaller> {
  const { kind, subject, version, session } = claims;
  if (session !== undefined) await requireLiveSession(app, { tenantId: tenant.id, userId: subject }, session);
  const user = await cachesOf(app).users.get(`${tenant.id}:${subject}`, () =>
    app.db.first<UserRow>(sql`
      select id, email, role, is_active, token_version from ${identifier(tenant.schema, 'users')}
      where id = ${subject}::uuid`),
  );
  if (user === undefined || !user.is_active || user.token_version !== version) throw unauthorized();
  const { id, email, role } = user;
  const rights = rightsOf((await rolesOf(app, tenant)).byName.get(role));
  const isTenantAdmin = isAdminRole(role);
  const known = { kind, id, tenant, role, email, rights, isTenantAdmin } as const;
  return { ...API_CALLER, ...known, ...(session === undefined ? {} : { session }) };
}

/** The caller of a bot's token. Tokens of a revoked bot stay valid until they expire; tokens of a deleted tenant do not. */
async function botCaller(app: App, tenant: Tenant, { subject }: Claims): Promise<TenantCaller> {
  const bot = await cachesOf(app).bots.get(subject, () =>
    app.db.first<BotRow>(sql`
      select id, name, permissions, limits from platform.bots
      where id = ${subject}::uuid and tenant_id = ${tenant.id}::uuid`),
  );
  if (bot === undefined) throw unauthorized();
  const rights = { isUnlimited: false, permissions: bot.permissions.entities ?? NONE, restrictions: NONE };
  const { id, name, limits } = bot;
  return { ...API_CALLER, kind: 'bot', id, tenant, role: null, name, rights, limits };
}
