// Whom an explanation is about: a role, or a credential of the tenant by kind and id. The code that admits requests builds the
// caller from the stored credential; an explanation does not count as use of the credential.
// Contract: interface#credentials, decisions#explanations.
import type { Caller } from '../access/caller.ts';
import { systemCaller } from '../access/caller.ts';
import type { CredentialKind, StoredKind } from '../access/credential-kinds.ts';
import { callerOfRole } from '../access/marks.ts';
import { callerOfClaims, isStored, type PublicScope, storedCaller } from '../access/resolve-caller.ts';
import { NO_RIGHTS } from '../access/rights.ts';
import { rolesOf } from '../access/role-store.ts';
import type { App } from '../app.ts';
import { unauthorized } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { identifier, type Sql, sql } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';

/** A credential as `whoami` identifies it, or a role. */
export interface As {
  kind?: CredentialKind;
  id?: string | null;
  role?: string;
}

export interface Subject {
  /** Null for a role. */
  kind: CredentialKind | null;
  /** The name by which people know it: a label, an address, a name. */
  name: string;
  /** The slug of a platform key's API. */
  api?: string;
  /** When the credential ended, if it did; null for a user means deactivated. */
  ended?: string | null;
  /** With the credential's rights over REST or on the channels. 401 if it is no longer accepted. */
  caller(scope: PublicScope): Promise<Caller>;
}

/** Undefined if the tenant has no such role or credential. */
export async function findSubject(app: App, tenant: Tenant, { kind, id, role }: As): Promise<Subject | undefined> {
  if (role !== undefined) return roleSubject(app, tenant, role);
  if (kind === 'super_admin') {
    return { kind, name: 'the super-admin', caller: async () => systemCaller(tenant, { triggeredBy: 'api' }) };
  }
  // A tenant must not learn which admin keys exist, and no tenant accepts one.
  if (kind === 'admin_key') return { kind, name: 'an admin key', caller: async () => ADMIN_KEY };
  if (kind === undefined || typeof id !== 'string' || !isUuid(id)) return undefined;
  if (isStored(kind)) return storedSubject(app, tenant, kind, id);
  return kind === 'bot' ? botSubject(app, tenant, id) : userSubject(app, tenant, kind, id);
}

const ADMIN_KEY: Caller = {
  kind: 'admin_key',
  id: null,
  tenant: null,
  role: null,
  email: null,
  rights: NO_RIGHTS,
  isTenantAdmin: false,
  triggeredBy: 'api',
};

async function roleSubject(app: App, tenant: Tenant, name: string): Promise<Subject | undefined> {
  const role = (await rolesOf(app, tenant)).byName.get(name);
  return role && { kind: null, name, caller: async () => callerOfRole(tenant, role) };
}

interface StoredRow {
  hash: string;
  name: string;
  ended: string | null;
  api: string | null;
}

/** An expired key counts as ended. */
const ENDED = sql`coalesce(k.revoked_at, case when k.expires_at <= now() then k.expires_at end) as ended`;
const STORED: { readonly [Kind in StoredKind]: Sql } = {
  owner_key: sql`k.label as name, ${ENDED}, null as api from platform.owner_keys as k`,
  public_key: sql`k.label as name, ${ENDED}, null as api from platform.public_keys as k`,
  platform_key: sql`coalesce(k.label, k.prefix) as name, ${ENDED},
    (select a.slug from platform.apis as a where a.id = k.api_id and a.tenant_id = k.tenant_id) as api from platform.platform_keys as k`,
  admin_session: sql`k.id::text as name,
    coalesce(k.ended_at, case when k.expires_at <= now() then k.expires_at end) as ended, null as api
    from platform.admin_sessions as k`,
};

async function storedSubject(app: App, tenant: Tenant, kind: StoredKind, id: string): Promise<Subject | undefined> {
  const row = await app.db.first<StoredRow>(sql`
    select encode(k.hash, 'hex') as hash, ${STORED[kind]}
    where k.id = ${id}::uuid and k.tenant_id = ${tenant.id}::uuid`);
  if (row === undefined) return undefined;
  const { hash, name, ended, api } = row;
  const caller = (scope: PublicScope): Promise<Caller> => storedCaller(app, kind, hash, scope, false);
  return { kind, name, ...(api === null ? {} : { api }), ...(ended === null ? {} : { ended }), caller };
}

/** The caller of a token issued now. */
function withToken(app: App, tenant: Tenant, kind: 'user' | 'developer' | 'bot', subject: string, version: number) {
  const expiresAtS = Math.ceil(Date.now() / 1_000) + LIMITS.bot.ttlS;
  return callerOfClaims(app, { kind, tenantId: tenant.id, subject, version, expiresAtS }, false);
}

async function userSubject(
  app: App,
  tenant: Tenant,
  kind: 'user' | 'developer',
  id: string,
): Promise<Subject | undefined> {
  const user = await app.db.first<{ email: string; token_version: number; is_active: boolean }>(sql`
    select email, token_version, is_active from ${identifier(tenant.schema, 'users')} where id = ${id}::uuid`);
  if (user === undefined) return undefined;
  const caller = (): Promise<Caller> => withToken(app, tenant, kind, id.toLowerCase(), user.token_version);
  return { kind, name: user.email, ...(user.is_active ? {} : { ended: null }), caller };
}

/** Tokens outlive a revocation by an hour at most. */
async function botSubject(app: App, tenant: Tenant, id: string): Promise<Subject | undefined> {
  const bot = await app.db.first<{ name: string; ended: string | null; has_tokens: boolean }>(sql`
    select name, revoked_at as ended, coalesce(revoked_at, now()) > now() - make_interval(secs => ${LIMITS.bot.ttlS}::int)
      as has_tokens
    from platform.bots
    where id = ${id}::uuid and tenant_id = ${tenant.id}::uuid`);
  if (bot === undefined) return undefined;
  const caller = async (): Promise<Caller> => {
    if (!bot.has_tokens) throw unauthorized();
    return withToken(app, tenant, 'bot', id.toLowerCase(), 0);
  };
  return { kind: 'bot', name: bot.name, ...(bot.ended === null ? {} : { ended: bot.ended }), caller };
}
