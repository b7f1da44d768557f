// Roles, and every resource that permissions can name in the tenant.
import { queryOptions, useQuery } from '@tanstack/react-query';
import { get } from '../api/call.ts';
import { entitiesQuery, keyOf } from '../api/queries.ts';
import type { Permissions, Role } from './permissions.ts';

export const rolesQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'roles'),
    queryFn: ({ signal }) => get<Role[]>('/api/roles', { tenant, signal }),
  });

export const roleQuery = (tenant: string, name: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'roles', name),
    enabled: name !== '',
    queryFn: ({ signal }) => get<Role>(`/api/roles/${encodeURIComponent(name)}`, { tenant, signal }),
  });

const viewsQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'views', 'slugs'),
    queryFn: async ({ signal }) => {
      const answer = await get<{ slug: string }[] | { items: { slug: string }[] }>('/api/views', { tenant, signal });
      return (Array.isArray(answer) ? answer : answer.items).map(({ slug }) => slug);
    },
  });

/** Entities, views, and what `named` names besides; with the rows for all unless `wildcards` is false. */
export function useResources(tenant: string, named: Permissions, wildcards = true): readonly string[] {
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const { data: views = [] } = useQuery(viewsQuery(tenant));
  const all = [
    ...(wildcards ? ['*'] : []),
    ...entities.map(({ name }) => name),
    ...(wildcards && views.length > 0 ? ['view:*'] : []),
    ...views.map((slug) => `view:${slug}`),
    ...Object.keys(named),
  ];
  return [...new Set(all)];
}
