// The caller: whether the credential is accepted, how long it is valid, and in which tenant it works. Without a credential, only
// the checks that need none run.
// Times are milliseconds.
import type { ApiError } from '../../../client/src/client.ts';
import { isRefusal } from '../failures.ts';
import { type CheckContext, type Finding, fault, note, ok } from './finding.ts';

export interface Identity {
  kind: string;
  tenant: { id: string; slug: string } | null;
  isAdmin: boolean;
}

const SOON_MS = 3 * 86_400_000;
const LOGIN = '`tds login` stores one; TDS_KEY takes precedence over it';

export async function checkIdentity({
  service,
}: CheckContext): Promise<{ findings: Finding[]; identity: Identity | null }> {
  const { credential, tenant } = service.target;
  if (credential === undefined) {
    return { findings: [fault('credential', 'there is no credential', LOGIN)], identity: null };
  }
  try {
    const caller = await service.get<Identity & { role: string | null; permissions: Record<string, string[]> }>(
      '/api/auth/whoami',
    );
    const where = caller.tenant?.slug ?? tenant;
    const findings = [
      expiry(credential) ?? ok('credential', `the credential is accepted: ${caller.kind}`),
      ...(where === undefined ? [] : [ok('tenant', `it works in ${where}`)]),
    ];
    const { kind, role } = caller;
    const isAdmin = /^(owner_key|admin_session|super_admin)$/.test(kind) || role === 'owner' || role === 'admin';
    return { findings, identity: { kind, tenant: caller.tenant ?? (await tenantOf(service)), isAdmin } };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { findings: [refused(error, tenant)], identity: null };
  }
}

function refused({ status, message }: ApiError, tenant: string | undefined): Finding {
  if (status === 401) {
    const cure = `it may be revoked, expired, mistyped, or of another installation; ${LOGIN}`;
    return fault('credential', `the service refuses the credential: ${message}`, cure);
  }
  if (status === 404) {
    return fault('tenant', `there is no tenant ${tenant}`, 'check --tenant; `tds tenants list` shows all to operators');
  }
  if (/suspended/.test(message)) {
    return fault('tenant', `the tenant is suspended`, 'an operator resumes it: `tds tenants resume <slug>`');
  }
  if (status === 403) {
    const cure = 'leave --tenant away, or use a credential of that tenant';
    return fault('tenant', `the credential does not work in ${tenant}: ${message}`, cure);
  }
  return fault('credential', message, LOGIN);
}

/** The expiry of a JWT, which can be read from it; null for other credentials. */
function expiry(credential: string): Finding | null {
  const [, payload = ''] = credential.startsWith('eyJ') ? credential.split('.') : [];
  if (payload === '') return null;
  const { exp } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { exp?: number };
  const left = (exp ?? Number.POSITIVE_INFINITY) * 1_000 - Date.now();
  if (left > SOON_MS) return null;
  const hours = Math.max(0, Math.floor(left / 3_600_000));
  return note('credential', `the credential is accepted, and ends in ${hours} hours`, 'sign in again with `tds login`');
}

/** The caller's tenant. With the super-admin secret, only a header names it. */
async function tenantOf(service: CheckContext['service']): Promise<{ id: string; slug: string } | null> {
  if (service.target.tenant === undefined) return null;
  return service.get<{ id: string; slug: string }>('/api/tenant');
}
