// The settings of a tenant in requests, and the effect of a changed custom domain on its verification. Operators may also
// confirm or withdraw a domain.
// Failures: 400, 409.
// Contract: decisions#custom-domains, neighbours#custom-domains.
import { type Static, Type } from '@sinclair/typebox';
import { isOrigin, ORIGINS_RULE } from '../access/origins.ts';
import type { App } from '../app.ts';
import { invalidField, type Problem } from '../errors.ts';
import { closed, nullable, textSet } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { endOtherClaims, newDomainToken, requireDomainFree } from '../tenants/custom-domains.ts';
import { isServiceHost, type TenantSettings } from '../tenants/tenants.ts';

/** The pattern of a host name. Its last label has a letter, so it excludes IP addresses. */
const HOST =
  '^(?=.{1,253}$)([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\\.)+(?=[0-9-]*[A-Za-z])[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$';

const SETTINGS = {
  selfRegistration: Type.Optional(Type.Boolean({ examples: [false] })),
  passwordReset: Type.Optional(Type.Boolean({ examples: [false] })),
  customDomain: Type.Optional(
    nullable(Type.String({ pattern: HOST }), { error: 'must be a host name, or null', examples: ['data.acme.test'] }),
  ),
  allowedOrigins: Type.Optional(
    textSet(Type.String({ maxLength: LIMITS.origins.lengthMax }), {
      maxItems: LIMITS.origins.perTenant,
      error: `${ORIGINS_RULE}; at most ${LIMITS.origins.perTenant}`,
      description: 'whose pages may use the tenant’s credentials; compared as text with the Origin header',
      examples: [['https://app.example.com']],
    }),
  ),
  eventRetentionDays: Type.Optional(
    nullable(Type.Integer({ minimum: 1 }), {
      error: 'must be a whole number of days from 1 on, or null',
      description:
        'how long events, history and deliveries are kept; null or missing: EVENT_RETENTION_DAYS, which is the most',
      examples: [30],
    }),
  ),
};
export const Settings = closed(SETTINGS, { $id: 'TenantSettings' });
const customDomainVerified = Type.Optional(
  Type.Boolean({ description: 'whether the custom domain works without a DNS record', examples: [true] }),
);
export const OperatorSettings = closed({ ...SETTINGS, customDomainVerified }, { $id: 'OperatorSettings' });
export type OperatorSettings = Static<typeof OperatorSettings>;

/** The settings as they are stored; the verification of the domain has separate columns. */
export function storedSettings(settings: OperatorSettings | null | undefined): TenantSettings {
  const { customDomain, customDomainVerified: _, ...switches } = settings ?? {};
  return customDomain === undefined ? switches : { ...switches, customDomain: customDomain?.toLowerCase() ?? null };
}

interface GivenSettings {
  settings?:
    | {
        customDomain?: unknown;
        allowedOrigins?: readonly (string | undefined)[] | undefined;
        eventRetentionDays?: unknown;
      }
    | null
    | undefined;
}

/** The problems that a schema cannot find: a domain that the service itself uses or reserves, and text that is not an origin. */
export function settingProblems(app: App) {
  return ({ settings }: GivenSettings): Problem[] => {
    const { customDomain: domain, allowedOrigins = [], eventRetentionDays: days } = settings ?? {};
    const max = app.config.eventRetentionDays;
    const isTooLong = typeof days === 'number' && days > max;
    const isReserved = typeof domain === 'string' && isServiceHost(app, domain.toLowerCase());
    return [
      ...(isTooLong
        ? [{ path: 'settings.eventRetentionDays', message: `must be at most ${max}, EVENT_RETENTION_DAYS` }]
        : []),
      ...(isReserved ? [{ path: 'settings.customDomain', message: 'is reserved for the service' }] : []),
      ...allowedOrigins.flatMap((origin, i) =>
        origin === undefined || isOrigin(origin)
          ? []
          : [{ path: `settings.allowedOrigins.${i}`, message: 'must be an origin, such as https://app.example.com' }],
      ),
    ];
  };
}

/** Whether settings may start or end the claim of a domain. */
export function touchesDomain(given: OperatorSettings | null | undefined): boolean {
  return given?.customDomain !== undefined || given?.customDomainVerified !== undefined;
}

/**
 * Starts or ends the claim of a tenant's domain when it changed, and verifies it for an operator. Must hold the lock on
 * names. Resolves to the ids of tenants that have lost their claim. 400 for a verification without a domain, 409 when
 * another tenant has verified the domain.
 */
export async function changeDomain(
  tx: Tx,
  before: { id: string; settings: TenantSettings; isVerified: boolean },
  given: OperatorSettings,
): Promise<string[]> {
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
  if (given.customDomainVerified === undefined && !isChanged) return [];
  await tx.rows(sql`
    update platform.tenants set domain_verified_at = case when ${isVerified} then coalesce(domain_verified_at, now()) end
    where id = ${id}::uuid`);
  return isVerified && domain !== null ? endOtherClaims(tx, domain, id) : [];
}
