// The tenants of an installation as operators see them, page by page.
// Needs the super-admin secret or an admin key.
// Contract: decisions#tenants.
import type { Service } from './service.ts';

export const TENANTS = '/api/admin/platform/tenants';
const PAGE_MAX = 100;

export interface Tenant {
  id: string;
  slug: string;
  name: string;
  status: 'active' | 'suspended';
  quotas: Record<string, number | null>;
  counts: { entities: number; records: number; users: number };
}

export function tenantPath(slug: string): string {
  return `${TENANTS}/${encodeURIComponent(slug)}`;
}

export async function* listTenants(service: Service, search?: string): AsyncGenerator<Tenant> {
  for (let page = 1, pages = 1; page <= pages; page += 1) {
    const { items, totalPages } = await service.get<{ items: Tenant[]; totalPages: number }>(TENANTS, {
      ...{ page, search },
      limit: PAGE_MAX,
    });
    yield* items;
    pages = totalPages;
  }
}
