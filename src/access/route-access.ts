// Who may use a route: the access levels that routes declare, the rule for each, and its description in the API
// document. The REST guard and MCP's API document apply these rules.
// Failures: 401 when one of two credentials is missing, 403. Contract: interface#authentication, decisions#admin-keys.
import type { App } from '../app.ts';
import { forbidden, unauthorized } from '../errors.ts';
import { type Queries, sql } from '../runtime/sql.ts';
import { type Caller, requireTenant } from './caller.ts';
import { CREDENTIAL_KINDS, type CredentialKind, propertiesOf, SECURITY_SCHEMES } from './credential-kinds.ts';

/** Every access level, with its description in the API document. */
export const ROUTE_ACCESS = {
  open: 'Needs no credential.',
  any: 'Any credential.',
  tenant: 'Any credential of a tenant whose role permits it.',
  admin: 'Tenant admins only.',
  stream: 'An owner key or platform key of the tenant, or a ticket, which every credential of the tenant can get.',
  ticket: 'Any credential of the tenant; a public key needs the scope `channels:read`.',
  session: 'An admin session token.',
  super: 'The super-admin only.',
  'platform:read': 'The super-admin, or an admin key with the scope `platform:read`.',
  'platform:write': 'The super-admin, or an admin key with the scope `platform:write`.',
  'tenants:manage': 'The super-admin, or an admin key with the scope `tenants:manage`.',
  'admin-keys:read': 'The super-admin together with an admin key that has the scope `platform:read`.',
  'admin-keys:write': 'The super-admin together with an admin key that has the scope `platform:write`.',
  'admin-keys:create':
    'The super-admin together with an admin key that has the scope `platform:write`; the super-admin alone while there is no such key.',
} as const;

export type Access = keyof typeof ROUTE_ACCESS;
/** Routes in a tenant; their handlers get a `TenantCaller`. */
export type TenantAccess = 'tenant' | 'admin' | 'ticket';
/** Routes of the platform, whose caller may have no tenant. */
export type PlatformAccess = Exclude<Access, TenantAccess | 'open'>;

/** The scope that an admin key needs when it is sent together with the super-admin secret. */
const KEY_SCOPES = {
  'admin-keys:read': 'platform:read',
  'admin-keys:write': 'platform:write',
  'admin-keys:create': 'platform:write',
} as const;

type KeyAccess = keyof typeof KEY_SCOPES;

function isKeyAccess(access: Access): access is KeyAccess {
  return Object.hasOwn(KEY_SCOPES, access);
}

/** The caller, if it may use a platform route of this access level. */
export async function requirePlatformAccess(app: App, caller: Caller, access: PlatformAccess): Promise<Caller> {
  // A suspended tenant always gets 403; platform credentials need no tenant.
  if (access === 'any' || access === 'stream') return caller.tenant === null ? caller : requireTenant(caller);
  if (isKeyAccess(access)) await requireBothCredentials(app, caller, access);
  else if (!mayUse(caller, access)) {
    throw access === 'session' ? forbidden('this needs an admin session token') : forbidden();
  }
  return caller;
}

/** Whether the caller may use routes of this access, apart from its permissions on resources. */
export function mayUse(caller: Caller, access: Access): boolean {
  if (access === 'open' || access === 'any') return true;
  if (access === 'tenant' || access === 'stream' || access === 'ticket') return caller.tenant !== null;
  if (access === 'admin') return caller.isTenantAdmin;
  if (access === 'session') return caller.kind === 'admin_session';
  return caller.kind === 'super_admin' || caller.scopes?.includes(access) === true;
}

async function requireBothCredentials(app: App, caller: Caller, access: KeyAccess): Promise<void> {
  if (caller.kind === 'admin_key') throw unauthorized('this needs the super-admin secret along with the admin key');
  if (caller.kind !== 'super_admin') throw forbidden('this needs the super-admin');
  if (caller.scopes === undefined) {
    if (access === 'admin-keys:create' && !(await writeKeyExists(app.db))) return;
    throw adminKeyRequired();
  }
  if (!caller.scopes.includes(KEY_SCOPES[access])) {
    throw forbidden(`the admin key lacks the scope ${KEY_SCOPES[access]}`);
  }
}

export function adminKeyRequired(): Error {
  return unauthorized('this needs an admin key along with the super-admin secret');
}

/** The condition that an admin key is neither revoked nor expired. */
export const IS_LIVE_KEY = sql`is_active and (expires_at is null or expires_at > now())`;

/** Whether an active key can create others; then the secret alone is not enough. */
export async function writeKeyExists(queries: Queries): Promise<boolean> {
  const row = await queries.first(sql`
    select from platform.admin_keys
    where ${IS_LIVE_KEY} and scopes @> '["platform:write"]'
    limit 1`);
  return row !== undefined;
}

/** The security requirements of a route in the API document. */
export function securityOf(access: Access): object[] {
  if (access === 'open') return [];
  if (isKeyAccess(access)) {
    const both = { adminSecret: [], adminKey: [] };
    return access === 'admin-keys:create' ? [both, { adminSecret: [] }] : [both];
  }
  const kinds = (Object.keys(CREDENTIAL_KINDS) as CredentialKind[]).filter((kind) => isAccepted(kind, access));
  const accepted = new Set<string>(kinds.map((kind) => propertiesOf(kind).scheme));
  if (access === 'stream') accepted.add('ticket');
  return Object.keys(SECURITY_SCHEMES).flatMap((scheme) => (accepted.has(scheme) ? [{ [scheme]: [] }] : []));
}

/** Whether a credential of this kind may use the method on routes of this access: public keys only read, or get a ticket. */
export function admitsMethod(kind: CredentialKind, method: string, access: Access): boolean {
  return propertiesOf(kind).rights !== 'role-reads' || method === 'GET' || method === 'HEAD' || access === 'ticket';
}

/** Whether some credentials of a kind have this access. */
function isAccepted(kind: CredentialKind, access: Exclude<Access, KeyAccess | 'open'>): boolean {
  const { tenant, rights, opensEventStream } = propertiesOf(kind);
  if (access === 'any') return true;
  if (access === 'stream') return opensEventStream;
  if (access === 'tenant' || access === 'ticket') return tenant !== 'none';
  if (access === 'admin') return rights === 'all' || rights === 'role';
  if (access === 'session') return kind === 'admin_session';
  return kind === 'super_admin' || (access !== 'super' && rights === 'scopes');
}
