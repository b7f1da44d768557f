// What a request presents as proof: exactly one credential, recognised by its header and prefix.
// Two in one request are refused, never ranked. Failures: 401.
// Contract: interface#credentials.
import { unauthorized } from '../errors.ts';
import { isUuid } from '../runtime/ids.ts';

export type CredentialKind =
  | 'owner_key'
  | 'platform_key'
  | 'public_key'
  | 'token'
  | 'admin_session'
  | 'admin_key'
  | 'super_admin';

export interface Credential {
  kind: CredentialKind;
  value: string;
}

/** Prefixes by kind; the longer ones first where one begins another. */
const PREFIXES: readonly (readonly [string, CredentialKind])[] = [
  ['svc_ak_', 'owner_key'],
  ['svc_pkey_', 'platform_key'],
  ['svc_pk_', 'public_key'],
  ['eyJ', 'token'],
];

/** What each header may carry. */
const HEADERS: readonly (readonly [string, readonly CredentialKind[]])[] = [
  ['x-api-key', ['owner_key']],
  ['x-public-key', ['public_key']],
  ['x-anon-key', ['public_key']],
  ['x-admin-key', ['admin_key']],
  ['x-admin-secret', ['super_admin']],
];

/** The credentials presented: none, one, or an admin key together with the super-admin secret. 401 for any other pair. */
export function credentialsIn(headers: Headers): Credential[] {
  const found: Credential[] = [];
  const authorization = headers.get('authorization');
  if (authorization !== null) found.push(fromAuthorization(authorization));
  for (const [name, kinds] of HEADERS) {
    const value = headers.get(name);
    if (value !== null) found.push(fromHeader(value, kinds));
  }
  if (found.length <= 1) return found;
  const kinds = found.map(({ kind }) => kind).sort();
  if (found.length === 2 && kinds[0] === 'admin_key' && kinds[1] === 'super_admin') return found;
  throw unauthorized('send one credential, not several');
}

function fromAuthorization(authorization: string): Credential {
  const [, scheme, value] = /^(Bearer|AdminKey) +(\S+)$/i.exec(authorization.trim()) ?? [];
  if (scheme === undefined || value === undefined) throw unauthorized('malformed Authorization header');
  if (scheme.toLowerCase() === 'adminkey') return { kind: 'admin_key', value };
  const kind = PREFIXES.find(([prefix]) => value.startsWith(prefix))?.[1] ?? (isUuid(value) ? 'admin_session' : null);
  if (kind === null) throw unauthorized();
  return { kind, value };
}

function fromHeader(value: string, kinds: readonly CredentialKind[]): Credential {
  const [kind] = kinds;
  const prefix = PREFIXES.find(([, prefixKind]) => prefixKind === kind)?.[0];
  if (kind === undefined || (prefix !== undefined && !value.startsWith(prefix))) throw unauthorized();
  return { kind, value };
}
