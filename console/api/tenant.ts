// The tenant as its own admins see it, for the pages that show or change it.
import { queryOptions } from '@tanstack/react-query';
import { get, patch } from './call.ts';
import { keyOf, queryClient } from './queries.ts';

export interface OwnTenant {
  id: string;
  slug: string;
  name: string;
  status: string;
  settings: {
    selfRegistration?: boolean;
    passwordReset?: boolean;
    customDomain?: string | null;
    allowedOrigins?: string[];
  };
  quotas: Record<string, number | null>;
  customDomainStatus: 'pending' | 'verified' | null;
  /** The TXT record that verifies the domain. */
  customDomainToken: string | null;
}

export const ownTenantQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'tenant'),
    queryFn: ({ signal }) => get<OwnTenant>('/api/tenant', { tenant, signal }),
  });

export async function changeOwnTenant(tenant: string, change: object): Promise<void> {
  const changed = await patch<OwnTenant>('/api/tenant', change, { tenant });
  queryClient.setQueryData(ownTenantQuery(tenant).queryKey, changed);
  await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'whoami') });
}
