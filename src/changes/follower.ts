// A follower of changes: a caller with the rights at admission, and later with its current rights. A public key needs the scope
// `channels:read`, and then has only the rights of that scope.
// Failures: 403, also later for a page whose origin the key no longer lists; later 401 when the credential has ended.
// Contract: feed#the-feed, decisions#changes-of-rights.
import { type CallerNow, callerNow } from '../access/authenticate.ts';
import type { TenantCaller } from '../access/caller.ts';
import { credentialsIn } from '../access/credential-kinds.ts';
import { requireAllowedOrigin } from '../access/origins.ts';
import { attachCaller } from '../access/request-context.ts';
import { callerOfOpener, openerOf } from '../access/resolve-opener.ts';
import type { App } from '../app.ts';
import { forbidden } from '../errors.ts';
import { mayFollow } from '../http/changes-cursor.ts';

export interface Follower {
  caller: TenantCaller;
  now: CallerNow;
}

/** The caller with its rights on changes. 403 for a public key without the scope. */
export async function followerOf(app: App, request: Request, caller: TenantCaller): Promise<Follower> {
  if (!mayFollow(caller)) throw forbidden('this key lacks the scope channels:read');
  const [credential] = credentialsIn(request.headers);
  if (caller.publicKey === undefined || credential === undefined) {
    return { caller, now: callerNow(app, request, caller) };
  }
  const opener = await openerOf(app, caller.tenant.id, credential);
  const now = async (): Promise<TenantCaller> => {
    const later = await callerOfOpener(app, opener);
    if (!mayFollow(later)) throw forbidden('this key lacks the scope channels:read');
    attachCaller(request, later);
    requireAllowedOrigin(app, request, later);
    return later;
  };
  return { caller: await now(), now };
}
