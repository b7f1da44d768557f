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
import { tenantById } from '../tenants/tenants.ts';
import { type Caller, requireTenant, type TenantCaller } from './caller.ts';
import { CREDENTIAL_KINDS, credentialsIn, propertiesOf, severalCredentials } from './credential-kinds.ts';
import { markedCaller } from './marks.ts';
import { requireAllowedOrigin } from './origins.ts';
import { countRequest, rateWindowsOf, requestQuotaOf } from './rate-limit.ts';
import {
  attachCaller,
  attachedCaller,
  clientAddressOf,
  continuedCaller,
  placeOf,
  redactedPath,
} from './request-context.ts';
import { resolveCaller } from './resolve-caller.ts';
import { FULL_RIGHTS, NO_RIGHTS } from './rights.ts';
import { type Access, admitsMethod, IS_LIVE_KEY } from './route-access.ts';
import { requireSameTenant, tenantInHeaders } from './tenant-context.ts';
import { useTicket } from './tickets.ts';

/**
 * The caller; null when the request has no credential. 401 for an invalid credential or a public key that writes, 403
 * when the request names another tenant, comes from an origin that the credential does not allow, or may not read as a
 * role, 429 over a rate limit. A route with the access `stream` takes a ticket as well.
 */
export async function authenticate(app: App, request: Request, access: Access = 'any'): Promise<Caller | null> {
  const caller = continuedCaller(request) ?? (await admitted(app, request, access));
  return caller && markedCaller(app, request, caller);
}

/** The caller of a request that has not been authenticated yet. */
async function admitted(app: App, request: Request, access: Access): Promise<Caller | null> {
  const caller = access === 'stream' ? await identifyForStream(app, request) : await identify(app, request);
  if (caller === null) return null;
  attachCaller(request, caller);
  const { hasOwnRateLimits, tenant: binding } = propertiesOf(caller.kind);
  countFor(caller.tenant?.id ?? null, binding !== 'bound');
  if (binding === 'bound' && caller.tenant !== null) placeOf(request)?.moveTo(caller.tenant.id);
  if (!admitsMethod(caller.kind, request.method, access)) throw unauthorized('public keys can only read');
  requireAllowedOrigin(app, request, caller);
  if (hasOwnRateLimits || app.config.rateLimitPerMin > 0 || requestQuotaOf(caller) !== undefined) {
    await countRequest(app, request, rateWindowsOf(app, caller));
  }
  return caller;
}

/** The caller of a request as it is now. */
export type CallerNow = () => Promise<TenantCaller>;

/**
 * Resolves to the caller of a request with the rights that it has now, for a request that takes long. Rejects with 401
 * and 403 once its credential is revoked or its tenant suspended or deleted. It is not counted as another request.
 */
export function callerNow(app: App, request: Request, caller: TenantCaller): CallerNow {
  const [credential] = credentialsIn(request.headers);
  // An admin may read as a role.
  const admitted = attachedCaller(request) ?? caller;
  const isBound = propertiesOf(admitted.kind).tenant === 'bound';
  const now = async (): Promise<Caller> => {
    if (credential !== undefined && isBound) return resolveCaller(app, credential);
    const tenant = await tenantById(app, caller.tenant.id);
    if (tenant === null) throw unauthorized();
    return { ...admitted, tenant };
  };
  return async () => {
    const later = await now();
    // The response obeys the list of origins as it is now, too (cors.ts).
    attachCaller(request, later);
    return requireTenant(await markedCaller(app, request, requireTenant(later)));
  };
}

/**
 * For a call that takes long: 401 once the operator's admin key is revoked or has expired. This does not count as another use of
 * the key.
 */
export async function requireOperatorNow(app: App, { kind, id }: Caller): Promise<void> {
  if (kind !== 'admin_key') return;
  const live = await app.db.first(sql`select from platform.admin_keys where id = ${id}::uuid and ${IS_LIVE_KEY}`);
  if (live === undefined) throw unauthorized();
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

/** The caller of a key, or of the ticket in the query. */
async function identifyForStream(app: App, request: Request): Promise<Caller | null> {
  const tickets = new URL(request.url).searchParams.getAll('ticket');
  const [ticket] = tickets;
  if (ticket === undefined) return identify(app, request);
  if (tickets.length > 1 || credentialsIn(request.headers).length > 0) throw severalCredentials();
  const caller = await useTicket(app, ticket);
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
    where prefix = ${displayPrefix(value, CREDENTIAL_KINDS.admin_key.format)} and ${IS_LIVE_KEY}`);
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
