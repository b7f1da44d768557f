// Who asks: the credential's kind, the tenant it speaks in, and its rights. Every operation asks
// the Caller; nothing else decides a right. Failures: 400 without a tenant, 401, 403.
// Contract: interface#authentication, decisions#tenant-admin, decisions#roles.
import { forbidden, invalidField, unauthorized } from '../errors.ts';
import type { TriggeredBy } from '../events/event.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { allows, type Operation, type Rights } from './rights.ts';

export type CallerKind =
  | 'owner_key'
  | 'platform_key'
  | 'public_key'
  | 'bot'
  | 'user'
  | 'developer'
  | 'admin_session'
  | 'admin_key'
  | 'super_admin';

export interface Caller {
  readonly kind: CallerKind;
  /** The credential's or person's id; null for the super-admin. Records carry it as `createdBy`. */
  readonly id: string | null;
  /** Null only for platform credentials without a tenant header. */
  readonly tenant: Tenant | null;
  readonly role: string | null;
  readonly email: string | null;
  readonly rights: Rights;
  /** Identifies what this caller may see, for caches and ETags: equal keys see alike. */
  readonly rightsKey: string;
  readonly isTenantAdmin: boolean;
  readonly triggeredBy: TriggeredBy;
  /** Scopes of an admin key or a public key. */
  readonly scopes?: readonly string[];
  /** The super-admin: the admin key that was sent along. */
  readonly adminKeyId?: string;
  /** Bots: the name by which others address it. */
  readonly name?: string;
  /** Rules: the change that the rule answers to. What the rule changes is one deeper. */
  readonly chain?: { depth: number; rootEventId: string };
  /** Tokens: when the credential runs out, ISO 8601. */
  readonly expiresAt?: string;
  /** Public keys: where they may be used from, and how often. */
  readonly publicKey?: { allowedOrigins: readonly string[]; perMinute: number; perDay: number };
}

/** A caller that is inside a tenant. */
export type TenantCaller = Caller & { readonly tenant: Tenant };

/** The caller, inside its tenant; 400 without a tenant context, 403 when the tenant is suspended. */
export function requireTenant(caller: Caller | null): TenantCaller {
  if (caller === null) throw unauthorized();
  if (caller.kind === 'admin_key') throw forbidden('an admin key is not for what is inside a tenant');
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

/** 403 unless the caller may do this to the entity (or `view:<slug>`, `agent:<name>`). */
export function requireRight(caller: TenantCaller, operation: Operation, resource: string): void {
  if (!allows(caller.rights, operation, resource)) throw forbidden(`no ${operation} permission on ${resource}`);
}
