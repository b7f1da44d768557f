// Which tokens open the WebSocket. A public key needs the scope for channels and, in a browser, a page of
// one of its origins. Failures: 401 and 403 for any other token.
// Contract: interface#websocket, decisions#websocket, decisions#tokens.
import { requireTenant, type TenantCaller } from '../access/caller.ts';
import { factsOf, recognize } from '../access/credential-kinds.ts';
import { isOriginAllowed } from '../access/origins.ts';
import { resolveCaller } from '../access/resolve-caller.ts';
import type { App } from '../app.ts';
import { forbidden, unauthorized } from '../errors.ts';

/** The caller of a token; `origin` is the page's, where a browser connects. */
export async function webSocketCaller(app: App, token: string, origin: string | null): Promise<TenantCaller> {
  const credential = recognize('bearer', token);
  if (credential.kind !== 'token' && !factsOf(credential.kind).opensWebSocket) throw unauthorized();
  const caller = requireTenant(await resolveCaller(app, credential, 'channels:read'));
  const { kind, scopes, publicKey } = caller;
  if (!factsOf(kind).opensWebSocket) throw forbidden();
  if (publicKey === undefined) return caller;
  if (scopes?.includes('channels:read') !== true) throw forbidden();
  if (!isOriginAllowed(publicKey.allowedOrigins, origin)) throw forbidden();
  return caller;
}
