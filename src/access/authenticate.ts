// Authenticates a request: finds and verifies the credential, determines the tenant, and counts the request
// against the caller's rate limits. Admin keys and the super-admin secret are verified here, tenant-bound
// credentials in resolve-caller.ts.
// Contract: interface#authentication, decisions#tenant-context, decisions#admin-keys.
import { timingSafeEqual } from 'node:crypto';
import type { App } from '../app.ts';
import { unauthorized } from '../errors.ts';
import { newId } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import { displayPrefix, matchesSecret, sha256 } from '../runtime/tokens.ts';
import { countFor } from '../runtime/work.ts';
import type { Caller } from './caller.ts';
import { CREDENTIAL_KINDS, credentialsIn, propertiesOf } from './credential-kinds.ts';
import { requireAllowedOrigin } from './origins.ts';
import { countRequest, rateWindowsOf, requestQuotaOf } from './rate-limit.ts';
import { attachCaller, clientAddressOf, continuedCaller, redactedPath } from './request-context.ts';
import { resolveCaller } from './resolve-caller.ts';
import { FULL_RIGHTS, NO_RIGHTS } from './rights.ts';
import { requireSameTenant, tenantInHeaders } from './tenant-context.ts';

const SAFE_METHODS: readonly string[] = ['GET', 'HEAD'];

/**
 * The caller; null when the request has no credential. 401 for an invalid credential or a public key that writes, 403
 * when the request names another tenant or comes from an origin that the key does not allow, 429 over a rate limit.
 */
export async function authenticate(app: App, request: Request): Promise<Caller | null> {
  const continued = continuedCaller(request);
  if (continued !== undefined) return continued;
  const caller = await identify(app, request);
  if (caller === null) return null;
  attachCaller(request, caller);
  const { rights, hasOwnRateLimits, tenant: binding } = propertiesOf(caller.kind);
  countFor(caller.tenant?.id ?? null, binding !== 'bound');
  if (rights === 'role-reads' && !SAFE_METHODS.includes(request.method)) {
    throw unauthorized('public keys can only read');
  }
  if (caller.publicKey !== undefined) requireAllowedOrigin(request, caller.publicKey.allowedOrigins);
  if (hasOwnRateLimits || app.config.rateLimitPerMin > 0 || requestQuotaOf(caller) !== undefined) {
    await countRequest(app, request, rateWindowsOf(app, caller));
  }
  return caller;
}

async function identify(app: App, request: Request): Promise<Caller | null> {
  const credentials = credentialsIn(request.headers);
  const [first] = credentials;
  if (first === undefined) return null;
  const adminKey = credentials.find(({ kind }) => kind === 'admin_key')?.value;
  const secret = credentials.find(({ kind }) => kind === 'super_admin')?.value;
  if (secret !== undefined) return superAdminCaller(app, request, secret, adminKey);
  if (adminKey !== undefined) return adminKeyCaller(app, request, adminKey);
  const caller = await resolveCaller(app, first);
  await requireSameTenant(app, request, caller.tenant);
  return caller;
}

const PLATFORM_CALLER = { tenant: null, role: null, email: null, rights: NO_RIGHTS, isTenantAdmin: false } as const;

/** The super-admin, with the scopes of the admin key when one is sent along. */
async function superAdminCaller(app: App, request: Request, secret: string, adminKey?: string): Promise<Caller> {
  if (!matchesSecret(secret, app.config.adminSecrets)) throw unauthorized();
  const key = adminKey === undefined ? undefined : await adminKeyCaller(app, request, adminKey);
  const tenant = await tenantInHeaders(app, request);
  return {
    ...PLATFORM_CALLER,
    kind: 'super_admin',
    id: null,
    ...(tenant === null ? {} : { tenant, rights: FULL_RIGHTS, isTenantAdmin: true }),
    triggeredBy: 'api',
    ...(key === undefined ? {} : { scopes: key.scopes, adminKeyId: key.id }),
  };
}

interface AdminKeyRow {
  id: string;
  hash: string;
  scopes: string[];
}

/** Finds the key by its prefix, verifies its hash, and records the use before the request runs. */
async function adminKeyCaller(app: App, request: Request, value: string) {
  const rows = await app.db.rows<AdminKeyRow>(sql`
    select id, encode(hash, 'hex') as hash, scopes from platform.admin_keys
    where prefix = ${displayPrefix(value, CREDENTIAL_KINDS.admin_key.format)} and is_active
      and (expires_at is null or expires_at > now())`);
  const digest = sha256(value);
  const row = rows.find(({ hash }) => timingSafeEqual(Buffer.from(hash, 'hex'), digest));
  if (row === undefined) throw unauthorized();
  const { id, scopes } = row;
  const endpoint = `${request.method} ${redactedPath(request.url)}`.slice(0, 500);
  await app.db.rows(sql`
    with used as (
      update platform.admin_keys set last_used_at = now() where id = ${id}::uuid
    )
    insert into platform.admin_key_audit (id, key_id, action, endpoint, ip)
    values (${newId()}::uuid, ${id}::uuid, 'used', ${endpoint}, ${clientAddressOf(request)})`);
  return { ...PLATFORM_CALLER, kind: 'admin_key', id, triggeredBy: 'api', scopes } as const;
}
