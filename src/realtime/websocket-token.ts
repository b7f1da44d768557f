// Which tokens open the WebSocket, and what each may see there. A public key sees what its role reads,
// under the scope for channels. Failures: 401 and 403 for any other token.
// Contract: interface#websocket, decisions#websocket, decisions#tokens.

import { requireTenant, type TenantCaller } from '../access/caller.ts';
import type { Credential, CredentialKind } from '../access/credential.ts';
import { resolveCaller } from '../access/resolve-caller.ts';
import type { Operation } from '../access/rights.ts';
import { rightsOf, rolesOf } from '../access/role-store.ts';
import type { App } from '../app.ts';
import { forbidden, unauthorized } from '../errors.ts';
import { isUuid } from '../runtime/ids.ts';

/** The caller behind a token. `origin` is the page's, where a browser connects: a public key may be bound to some. */
export async function webSocketCaller(app: App, token: string, origin: string | null): Promise<TenantCaller> {
  const caller = requireTenant(await resolveCaller(app, credentialIn(token)));
  if (caller.kind === 'user' || caller.kind === 'developer') throw forbidden();
  return caller.publicKey === undefined ? caller : publicCaller(app, caller, caller.publicKey.allowedOrigins, origin);
}

function credentialIn(value: string): Credential {
  const kind: CredentialKind | null = value.startsWith('svc_pkey_')
    ? 'platform_key'
    : value.startsWith('svc_pk_')
      ? 'public_key'
      : value.startsWith('eyJ')
        ? 'token'
        : isUuid(value)
          ? 'admin_session'
          : null;
  if (kind === null) throw unauthorized();
  return { kind, value };
}

async function publicCaller(
  app: App,
  caller: TenantCaller,
  allowedOrigins: readonly string[],
  origin: string | null,
): Promise<TenantCaller> {
  if (caller.scopes?.includes('channels:read') !== true) throw forbidden();
  if (origin !== null && allowedOrigins.length > 0 && !allowedOrigins.includes(origin)) throw forbidden();
  const role = (await rolesOf(app, caller.tenant)).byName.get(caller.role ?? '');
  const { permissions, restrictions } = rightsOf(role);
  const readable = Object.entries(permissions).filter(([, operations]) => operations.includes('read'));
  const reading = readable.map(([resource]): [string, Operation[]] => [resource, ['read']]);
  return { ...caller, rights: { isUnlimited: false, permissions: Object.fromEntries(reading), restrictions } };
}
