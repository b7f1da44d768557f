// The caller of an operation: its credential's kind, its tenant and its rights. Every permission check is made
// against the caller.
// Failures: 400 without a tenant, 401, 403. Contract: interface#authentication, decisions#tenant-context.
import { forbidden, invalidField, unauthorized } from '../errors.ts';
import type { TriggeredBy } from '../events/event.ts';
import type { Tenant } from '../tenants/tenants.ts';
import type { BotLimits } from './bot-limits.ts';
import { type CredentialKind, propertiesOf } from './credential-kinds.ts';
import type { SessionClaim } from './jwt.ts';
import type { UsedTicket } from './opener.ts';
import { allows, FULL_RIGHTS, type Operation, type Rights } from './rights.ts';

export interface Caller {
  readonly kind: CredentialKind;
  /** The credential's or the user's id; null for the super-admin. Records store it as `createdBy`. */
  readonly id: string | null;
  /** Null only for a platform credential without a tenant header. */
  readonly tenant: Tenant | null;
  readonly role: string | null;
  readonly email: string | null;
  readonly rights: Rights;
  readonly isTenantAdmin: boolean;
  readonly triggeredBy: TriggeredBy;
  /** Scopes of an admin key or a public key. */
  readonly scopes?: readonly string[];
  /** For the super-admin: the admin key that was sent along. */
  readonly adminKeyId?: string;
  /** For platform keys: the API that they belong to. */
  readonly apiId?: string;
  /** For bots: the name that messages are addressed to. */
  readonly name?: string;
  /** For bots: their limits. */
  readonly limits?: BotLimits;
  /** For rules: the event that triggered the rule, and the runs of its chain so far. The rule's writes are one level deeper. */
  readonly chain?: { depth: number; rootEventId: string; runs: number };
  /** A tenant admin that reads as one of its tenant's roles: the role's name. */
  readonly asRole?: string;
  /** For imports: the id that their events carry. */
  readonly importId?: string;
  /** For tokens: the expiry in ISO 8601. */
  readonly expiresAt?: string;
  /** For user tokens: the sign-in that they belong to. */
  readonly session?: SessionClaim;
  /** If a ticket opened the stream: the credential that issued the ticket, and the limits that the ticket sets. */
  readonly ticket?: UsedTicket;
  /** For public keys: their origins and rate limits. */
  readonly publicKey?: { allowedOrigins: readonly string[]; perMinute: number; perDay: number };
}

/** A caller inside a tenant. */
export type TenantCaller = Caller & { readonly tenant: Tenant };

/**
 * A key that is equal for requests with the same credential. It contains the tenant, since a clone's users keep the original's
 * ids.
 */
export function credentialOf({ kind, id, tenant }: Pick<Caller, 'kind' | 'id' | 'tenant'>): string {
  const isOfTenant = kind === 'user' || kind === 'developer';
  return isOfTenant ? `${kind}:${tenant?.id}:${id}` : `${kind}:${id ?? ''}`;
}

/** The service itself, with full rights in a tenant. */
export function systemCaller(tenant: Tenant, more: Pick<Caller, 'triggeredBy' | 'chain'>): TenantCaller {
  const identity = { kind: 'super_admin', id: null, role: null, email: null } as const;
  return { ...identity, tenant, rights: FULL_RIGHTS, isTenantAdmin: true, ...more };
}

/** The caller in its tenant; 400 without a tenant context, 403 when the tenant is suspended. */
export function requireTenant(caller: Caller | null): TenantCaller {
  if (caller === null) throw unauthorized();
  if (propertiesOf(caller.kind).tenant === 'none') throw forbidden('this credential cannot be used in a tenant');
  if (caller.tenant === null) {
    throw invalidField('X-Tenant-ID', 'this credential is not bound to a tenant; name one in this header');
  }
  if (caller.tenant.status === 'suspended') throw forbidden('this tenant is suspended');
  return caller as TenantCaller;
}

/** The caller, if it is a tenant admin: owner key, owner or admin user, admin session, super-admin with a tenant. */
export function requireTenantAdmin(caller: Caller | null): TenantCaller {
  const inTenant = requireTenant(caller);
  if (!inTenant.isTenantAdmin) throw forbidden('this needs a tenant admin');
  return inTenant;
}

/** 403 unless the caller may use the operation on the resource. */
export function requireRight(caller: TenantCaller, operation: Operation, resource: string): void {
  if (!allows(caller.rights, operation, resource)) throw forbidden(`no ${operation} permission on ${resource}`);
}

/** Throws 403 unless the caller may do one of the operations on the resource. */
export function requireOneRight(
  caller: TenantCaller,
  [first, ...others]: readonly [Operation, ...Operation[]],
  resource: string,
): void {
  if (!others.some((operation) => allows(caller.rights, operation, resource))) requireRight(caller, first, resource);
}
