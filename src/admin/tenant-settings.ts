// The settings of a tenant as requests give them, and what a change of the custom domain does to its verification.
// Operators may also confirm or take back a domain.
// Failures: 400, 409. Contract: decisions#custom-domains, neighbours#custom-domains.
import { type Static, Type } from '@sinclair/typebox';
import type { App } from '../app.ts';
import { invalidField, type Problem } from '../errors.ts';
import { closed, nullable } from '../http/schemas.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { endOtherClaims, newDomainToken, requireDomainFree } from '../tenants/custom-domains.ts';
import { isServiceHost, type TenantSettings } from '../tenants/tenants.ts';

/** The last label has a letter, so an IP address is none. */
const HOST =
  '^(?=.{1,253}$)([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\\.)+(?=[0-9-]*[A-Za-z])[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$';

const SETTINGS = {
  selfRegistration: Type.Optional(Type.Boolean({ examples: [false] })),
  passwordReset: Type.Optional(Type.Boolean({ examples: [false] })),
  customDomain: Type.Optional(
    nullable(Type.String({ pattern: HOST }), { error: 'must be a host name, or null', examples: ['data.acme.test'] }),
  ),
};
export const Settings = closed(SETTINGS, { $id: 'TenantSettings' });
const customDomainVerified = Type.Optional(
  Type.Boolean({ description: 'whether the custom domain works without a DNS record', examples: [true] }),
);
export const OperatorSettings = closed({ ...SETTINGS, customDomainVerified }, { $id: 'OperatorSettings' });
export type OperatorSettings = Static<typeof OperatorSettings>;

/** The problem of a domain that the service itself has or reserves. */
export function domainProblems(app: App) {
  return ({ settings }: { settings?: { customDomain?: unknown } | null | undefined }): Problem[] => {
    const domain = settings?.customDomain;
    if (typeof domain !== 'string' || !isServiceHost(app, domain.toLowerCase())) return [];
    return [{ path: 'settings.customDomain', message: 'is reserved for the service' }];
  };
}

/**
 * Starts or ends the claim of a tenant's domain when it changed, and verifies it for an operator. Must hold the lock on
 * names. 400 for a verification without a domain, 409 when another tenant has verified the domain.
 */
export async function changeDomain(
  tx: Tx,
  before: { id: string; settings: TenantSettings; isVerified: boolean },
  given: OperatorSettings,
): Promise<void> {
  const { id } = before;
  const former = before.settings.customDomain ?? null;
  const domain = given.customDomain === undefined ? former : (given.customDomain?.toLowerCase() ?? null);
  const isChanged = domain !== former;
  const isVerified = given.customDomainVerified ?? (before.isVerified && !isChanged);
  if (given.customDomainVerified === true && domain === null) {
    throw invalidField('settings.customDomainVerified', 'needs a customDomain');
  }
  if (domain !== null && (isChanged || isVerified)) await requireDomainFree(tx, domain, id);
  if (isChanged) {
    await tx.rows(sql`
      update platform.tenants
      set domain_token = ${newDomainToken(domain)}, domain_verified_at = null, domain_checked_at = null
      where id = ${id}::uuid`);
  }
  if (given.customDomainVerified === undefined && !isChanged) return;
  await tx.rows(sql`
    update platform.tenants set domain_verified_at = case when ${isVerified} then coalesce(domain_verified_at, now()) end
    where id = ${id}::uuid`);
  if (isVerified && domain !== null) await endOtherClaims(tx, domain, id);
}
