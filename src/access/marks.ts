// What a request states about itself besides its credential: that it comes from the console, or that a tenant admin reads as one
// of the tenant's roles. Neither mark widens the caller's rights.
// Failures: 403 for any caller or method that may not read as a role, 404 for an unknown role.
// Contract: decisions#marks.
import type { App } from '../app.ts';
import { forbidden, notFound } from '../errors.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { type Caller, requireTenant, type TenantCaller } from './caller.ts';
import { propertiesOf } from './credential-kinds.ts';
import { attachRole } from './request-context.ts';
import { isAdminRole, type Role, rightsOf, rolesOf } from './role-store.ts';

const CLIENT = 'x-svc-client';
const AS_ROLE = 'x-svc-as-role';

/** The caller with the marks of the request. */
export function markedCaller(app: App, request: Request, caller: Caller): Caller | Promise<Caller> {
  const role = request.headers.get(AS_ROLE);
  if (role !== null) return callerAsRole(app, request, caller, role);
  const isConsole = propertiesOf(caller.kind).opensConsole && request.headers.get(CLIENT) === 'console';
  return isConsole ? { ...caller, triggeredBy: 'ui' } : caller;
}

/** The caller with the rights of a role, and without an identity. */
async function callerAsRole(app: App, request: Request, caller: Caller, name: string): Promise<Caller> {
  if (request.method !== 'GET' || !caller.isTenantAdmin) {
    throw forbidden('only a tenant admin can read as a role (X-Svc-As-Role), and only with GET');
  }
  const { tenant, triggeredBy } = requireTenant(caller);
  const role = (await rolesOf(app, tenant)).byName.get(name);
  if (role === undefined) throw notFound('role');
  attachRole(request, name);
  return { ...callerOfRole(tenant, role), triggeredBy };
}

/** An anonymous user of the role. */
export function callerOfRole(tenant: Tenant, role: Role): TenantCaller {
  const { name } = role;
  const identity = { kind: 'user', id: null, email: null, asRole: name, triggeredBy: 'api' } as const;
  return { ...identity, tenant, role: name, rights: rightsOf(role), isTenantAdmin: isAdminRole(name) };
}
