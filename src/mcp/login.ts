// The login of an MCP session: the claims of the token that `tenant_login` has returned. No token is stored. Each request of the
// session is authenticated with a token that is signed for it, so that the login ends with the user's session.
// Failures: 401 once it has ended. Contract: decisions#mcp, decisions#tokens.
import { withoutCredentials } from '../access/credential-kinds.ts';
import type { Claims } from '../access/jwt.ts';
import { shareRequestContext } from '../access/request-context.ts';
import { tokensOf } from '../access/resolve-caller.ts';
import { currentClaim } from '../access/user-sessions.ts';
import type { App } from '../app.ts';
import { type ServiceError, unauthorized } from '../errors.ts';

/** The claims of a token that has just been issued. */
export async function claimsOf(app: App, token: string): Promise<Claims> {
  const claims = await tokensOf(app).verify(token);
  if (claims === undefined) throw unauthorized();
  return claims;
}

/** The request with the user's token as its only credential. */
export async function asUser(app: App, request: Request, claims: Claims): Promise<Request> {
  const { tenantId, subject: userId, session } = claims;
  const current = session === undefined ? {} : await currentClaim(app, { tenantId, userId }, session.id);
  const headers = withoutCredentials(request.headers);
  headers.set('authorization', `Bearer ${await tokensOf(app).sign({ ...claims, ...current })}`);
  const named = new Request(request.url, { method: request.method, headers });
  shareRequestContext(request, named);
  return named;
}

export function loginEnded(): ServiceError {
  return unauthorized('the login of this session has ended: call tenant_login again');
}
