// From a request to a Caller: find the credential, verify it, settle the tenant. The super-admin
// secret and admin keys belong to no tenant; everything else is bound to one.
// Contract: interface#authentication, decisions#tenant-context, decisions#identity.
import { timingSafeEqual } from 'node:crypto';
import type { App } from '../app.ts';
import { unauthorized } from '../errors.ts';
import { newId } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import { displayPrefix, matchesSecret, sha256 } from '../runtime/tokens.ts';
import type { Caller } from './caller.ts';
import { requireAllowedOrigin } from './cors.ts';
import { type Credential, credentialsIn } from './credential.ts';
import { countRequest, rateWindowsOf } from './rate-limit.ts';
import { clientAddressOf, redactedPath } from './request-context.ts';
import { resolveCaller } from './resolve-caller.ts';
import { FULL_RIGHTS, NO_RIGHTS } from './rights.ts';
import { confirmTenant, namedTenant } from './tenant-context.ts';

export const ADMIN_KEY_PREFIX = 'svc_adm_';

/**
 * The caller, or null where nothing is presented. 401 for a bad credential and for a public key that would write, 403
 * for a foreign tenant header or origin, 429 past a rate limit.
 */
export async function authenticate(app: App, request: Request): Promise<Caller | null> {
  const caller = await identify(app, request);
  if (caller === null) return null;
  if (caller.publicKey !== undefined) {
    if (!READING.has(request.method)) throw unauthorized('public keys only read');
    requireAllowedOrigin(request, caller.publicKey.allowedOrigins);
  }
  if (caller.publicKey !== undefined || app.config.rateLimitPerMin > 0) {
    await countRequest(app, request, rateWindowsOf(app, caller));
  }
  return caller;
}

const READING = new Set(['GET', 'HEAD']);

async function identify(app: App, request: Request): Promise<Caller | null> {
  const credentials = credentialsIn(request.headers);
  const [first] = credentials;
  if (first === undefined) return null;
  const adminKey = credentials.find(({ kind }) => kind === 'admin_key');
  const secret = credentials.find(({ kind }) => kind === 'super_admin');
  if (secret !== undefined) return superAdmin(app, request, secret, adminKey);
  if (adminKey !== undefined) return adminKeyCaller(app, request, adminKey);
  const caller = await resolveCaller(app, first);
  await confirmTenant(app, request, caller.tenant);
  return caller;
}

/** The super-admin, with the scopes of an admin key when one is sent along. */
async function superAdmin(
  app: App,
  request: Request,
  secret: Credential,
  adminKey: Credential | undefined,
): Promise<Caller> {
  if (!matchesSecret(secret.value, app.config.adminSecrets)) throw unauthorized();
  const key = adminKey === undefined ? undefined : await adminKeyCaller(app, request, adminKey);
  const tenant = await namedTenant(app, request);
  return {
    kind: 'super_admin',
    id: null,
    tenant,
    role: null,
    email: null,
    rights: tenant === null ? NO_RIGHTS : FULL_RIGHTS,
    rightsKey: 'all',
    isTenantAdmin: tenant !== null,
    triggeredBy: 'api',
    ...(key?.scopes === undefined ? {} : { scopes: key.scopes, adminKeyId: key.id as string }),
  };
}

interface AdminKeyRow {
  id: string;
  hash: string;
  scopes: string[];
}

/** Found by its prefix, verified by its hash, and every use is written down before it takes effect. */
async function adminKeyCaller(app: App, request: Request, { value }: Credential): Promise<Caller> {
  const rows = await app.db.rows<AdminKeyRow>(sql`
    select id, encode(hash, 'hex') as hash, scopes from platform.admin_keys
    where prefix = ${displayPrefix(value, ADMIN_KEY_PREFIX)} and is_active
      and (expires_at is null or expires_at > now())`);
  const digest = sha256(value);
  const row = rows.find(({ hash }) => timingSafeEqual(Buffer.from(hash, 'hex'), digest));
  if (row === undefined) throw unauthorized();
  const endpoint = `${request.method} ${redactedPath(request.url)}`.slice(0, 500);
  await app.db.rows(sql`
    with used as (
      update platform.admin_keys set last_used_at = now() where id = ${row.id}::uuid
    )
    insert into platform.admin_key_audit (id, key_id, action, endpoint, ip)
    values (${newId()}::uuid, ${row.id}::uuid, 'used', ${endpoint}, ${clientAddressOf(request)})`);
  return {
    kind: 'admin_key',
    id: row.id,
    tenant: null,
    role: null,
    email: null,
    rights: NO_RIGHTS,
    rightsKey: 'none',
    isTenantAdmin: false,
    triggeredBy: 'api',
    scopes: row.scopes,
  };
}
