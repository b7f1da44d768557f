// Access to the admin-key routes: the super-admin secret together with an admin key that has the scope. While
// no usable key may write, the secret alone creates the first one.
// Failures: 401 when one of the two is missing, 403 when the scope is. Contract: decisions#admin-keys.
import type { App } from '../app.ts';
import { forbidden, unauthorized } from '../errors.ts';
import { type Queries, sql } from '../runtime/sql.ts';
import type { Caller } from './caller.ts';

const SCOPES = {
  'admin-keys:read': 'platform:read',
  'admin-keys:write': 'platform:write',
  'admin-keys:create': 'platform:write',
} as const;

export type AdminKeyAccess = keyof typeof SCOPES;

export function isAdminKeyAccess(access: string): access is AdminKeyAccess {
  return Object.hasOwn(SCOPES, access);
}

/** Throws unless the caller presents what the access asks for. */
export async function requireBothCredentials(app: App, caller: Caller, access: AdminKeyAccess): Promise<void> {
  if (caller.kind === 'admin_key') throw unauthorized('this needs the super-admin secret along with the admin key');
  if (caller.kind !== 'super_admin') throw forbidden('this needs the super-admin');
  if (caller.scopes === undefined) {
    if (access === 'admin-keys:create' && !(await writingKeyExists(app.db))) return;
    throw keyMissing();
  }
  if (!caller.scopes.includes(SCOPES[access])) throw forbidden(`the admin key lacks the scope ${SCOPES[access]}`);
}

export function keyMissing(): Error {
  return unauthorized('this needs an admin key along with the super-admin secret');
}

/** Whether a usable key may create others: from then on the secret alone is not enough. */
export async function writingKeyExists(queries: Queries): Promise<boolean> {
  const row = await queries.first(sql`
    select from platform.admin_keys
    where is_active and (expires_at is null or expires_at > now()) and scopes @> '["platform:write"]'
    limit 1`);
  return row !== undefined;
}
