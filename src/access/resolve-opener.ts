// Makes the opener of a stream from a credential, and resolves it to its caller: when the stream begins, and again whenever
// rights may have changed. A user token is stored as its session, so that a stream outlasts a refresh and ends with the session.
// Failures: 401 when the credential is revoked or expired.
// Contract: browsers#tickets, decisions#changes-of-rights.
import type { App } from '../app.ts';
import { forbidden, unauthorized } from '../errors.ts';
import { sha256 } from '../runtime/tokens.ts';
import { tenantById } from '../tenants/tenants.ts';
import { systemCaller, type TenantCaller } from './caller.ts';
import type { Credential } from './credential-kinds.ts';
import type { Opener } from './opener.ts';
import { callerOfClaims, isStored, isStoredKnownGood, storedCaller, tokensOf } from './resolve-caller.ts';
import { currentClaim, isSessionKnownLive } from './user-sessions.ts';

/** The opener for a credential of the tenant. */
export async function openerOf(app: App, tenantId: string, { kind, value }: Credential): Promise<Opener> {
  if (kind === 'super_admin') return { kind, tenantId };
  if (kind === 'token') {
    const claims = await tokensOf(app).verify(value);
    if (claims === undefined) throw unauthorized();
    return { kind, claims };
  }
  if (!isStored(kind)) throw forbidden();
  return { kind, hash: sha256(value).toString('hex') };
}

/** The caller with its current rights on streams. 401 when the credential is revoked or expired. */
export async function callerOfOpener(app: App, opener: Opener): Promise<TenantCaller> {
  if (opener.kind === 'super_admin') {
    const tenant = await tenantById(app, opener.tenantId);
    if (tenant === null) throw unauthorized();
    return systemCaller(tenant, { triggeredBy: 'api' });
  }
  if (opener.kind !== 'token') return storedCaller(app, opener.kind, opener.hash, 'channels:read');
  const { claims } = opener;
  const { tenantId, subject: userId, session } = claims;
  const current = session === undefined ? {} : await currentClaim(app, { tenantId, userId }, session.id);
  return callerOfClaims(app, { ...claims, ...current });
}

/**
 * Whether the opener's credential is known to be neither revoked nor expired, without a query: false while revocations cannot be
 * announced. Counts as a use of the credential, like resolving it.
 */
export function isKnownGood(app: App, opener: Opener): boolean {
  if (!app.broker.connected()) return false;
  if (opener.kind === 'super_admin') return true;
  if (opener.kind !== 'token') return isStoredKnownGood(app, opener.kind, opener.hash);
  const { kind, tenantId, subject, session, expiresAtS } = opener.claims;
  if (session !== undefined) return isSessionKnownLive(app, { tenantId, userId: subject }, session.id);
  if (kind === 'bot') app.lastUsed.note('bots', subject);
  return expiresAtS * 1_000 > Date.now();
}
