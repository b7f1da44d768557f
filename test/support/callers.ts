// Callers for tests that call operations directly, without a request.
import type { TenantCaller } from '../../src/access/caller.ts';
import { tenantById } from '../../src/tenants/tenants.ts';
import type { TestService } from './service.ts';

/** A user of the tenant with these rights. */
export async function userCaller(
  service: TestService,
  tenant: { id: string },
  rights: TenantCaller['rights'],
  more: Partial<TenantCaller> = {},
): Promise<TenantCaller> {
  const found = await tenantById(service.app, tenant.id);
  if (found === null) throw new Error('no tenant');
  const identity = { id: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f', role: 'clerk', email: 'clerk@example.com' };
  return { kind: 'user', ...identity, tenant: found, rights, isTenantAdmin: false, triggeredBy: 'api', ...more };
}
