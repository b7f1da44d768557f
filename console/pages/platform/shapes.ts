// What the API answers about the platform, and the queries of it that several sections use.
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { Page } from '../../api/answers.ts';
import { get } from '../../api/call.ts';
import { keyOf } from '../../api/queries.ts';

export const TENANTS = '/api/admin/platform/tenants';

export interface OperatedTenant {
  id: string;
  slug: string;
  name: string;
  status: 'active' | 'suspended';
  settings: { customDomain?: string | null };
  quotas: Record<string, number | null>;
  customDomainStatus: 'pending' | 'verified' | null;
  customDomainToken: string | null;
  createdAt: string;
  counts: { entities: number; records: number; users: number };
}

/** Of a list of tenants. */
export const PER_PAGE = 50;

export const tenantsPageQuery = (page: number, search: string) =>
  queryOptions({
    queryKey: keyOf(null, 'tenants', 'page', page, search),
    queryFn: ({ signal }) => get<Page<OperatedTenant>>(TENANTS, { signal, query: { page, limit: PER_PAGE, search } }),
    placeholderData: keepPreviousData,
  });

export const tenantQuery = (slug: string) =>
  queryOptions({
    queryKey: keyOf(null, 'tenants', 'one', slug),
    queryFn: ({ signal }) => get<OperatedTenant>(`${TENANTS}/${encodeURIComponent(slug)}`, { signal }),
    retry: false,
  });
