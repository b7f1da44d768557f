// The caller of a token that a WebSocket sends. Tokens arrive in messages, never in cookies, so another site's page cannot
// use a visitor's rights; a public key also requires an allowed origin.
// Failures: 401 and 403. Contract: interface#websocket, decisions#websocket.
import { requireTenant, type TenantCaller } from '../access/caller.ts';
import { propertiesOf, recognize } from '../access/credential-kinds.ts';
import { isOriginAllowed } from '../access/origins.ts';
import { resolveCaller } from '../access/resolve-caller.ts';
import type { App } from '../app.ts';
import { forbidden, ServiceError, unauthorized } from '../errors.ts';

/** `origin` is the page's origin when a browser connects. 401 and 403 for a token that does not open the WebSocket. */
export async function callerOf(app: App, token: string, origin: string | null): Promise<TenantCaller> {
  const credential = recognize('bearer', token);
  if (credential.kind !== 'token' && !propertiesOf(credential.kind).opensWebSocket) throw unauthorized();
  const caller = requireTenant(await resolveCaller(app, credential, 'channels:read'));
  const { kind, scopes, publicKey } = caller;
  if (!propertiesOf(kind).opensWebSocket) throw forbidden();
  if (publicKey === undefined) return caller;
  if (scopes?.includes('channels:read') !== true) throw forbidden();
  if (!isOriginAllowed(publicKey.allowedOrigins, origin)) throw forbidden();
  return caller;
}

/** Null for a token that is not accepted. */
export async function acceptedCallerOf(app: App, token: string, origin: string | null): Promise<TenantCaller | null> {
  try {
    return await callerOf(app, token, origin);
  } catch (cause) {
    if (cause instanceof ServiceError && (cause.status === 401 || cause.status === 403)) return null;
    throw cause;
  }
}
