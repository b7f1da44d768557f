// Queries that several pages share, and the client that runs them. A key begins with tenant and role, so that nothing
// of one is ever shown in the other; signing out clears all.
import { keepPreviousData, QueryClient, queryOptions } from '@tanstack/react-query';
import type { Entity, Page, Row, Tenant, WhoAmI } from './answers.ts';
import { get, seenAs } from './call.ts';
import { ApiError, OfflineError } from './errors.ts';

const MAX_TRIES = 3;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      refetchOnWindowFocus: false,
      retry: (tries, cause) => tries < MAX_TRIES && isWorthAnother(cause),
      retryDelay: (tries, cause) => (cause instanceof ApiError ? cause.retryAfterMs : null) ?? 500 * 2 ** tries,
    },
    mutations: { retry: false },
  },
});

/** A busy service answers later; a refusal stays one. */
function isWorthAnother(cause: unknown): boolean {
  if (cause instanceof ApiError)
    return cause.status === 503 || (cause.status === 429 && (cause.retryAfterMs ?? 1_000) <= 10_000);
  return cause instanceof OfflineError;
}

/** The key of a query in a tenant: `keyOf('acme', 'entities')`. */
export function keyOf(tenant: string | null, ...rest: readonly unknown[]): readonly unknown[] {
  return [tenant, seenAs.get(), ...rest];
}

export const whoamiQuery = (tenant: string | null) =>
  queryOptions({
    queryKey: keyOf(tenant, 'whoami'),
    queryFn: ({ signal }) => get<WhoAmI>('/api/auth/whoami', { tenant, signal }),
    staleTime: 60_000,
  });

export const entitiesQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'entities'),
    queryFn: async ({ signal }) => {
      const answer = await get<Entity[] | Page<Entity>>('/api/entities', { tenant, signal });
      const items = Array.isArray(answer) ? answer : answer.items;
      return items.filter(({ name }) => !name.startsWith('_svc_'));
    },
  });

export const entityQuery = (tenant: string, entity: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'entities', entity),
    queryFn: ({ signal }) => get<Entity>(`/api/entities/${encodeURIComponent(entity)}`, { tenant, signal }),
    // A page that is being left has no parameters any more.
    enabled: entity !== '',
  });

/** The number of records that match; `filters` and `search` as in lists. */
export const countQuery = (
  tenant: string,
  entity: string,
  query: { filters?: string; search?: string } = {},
  headers: Record<string, string> = {},
) =>
  queryOptions({
    queryKey: keyOf(tenant, 'count', entity, query, headers),
    queryFn: async ({ signal }) => {
      const options = { tenant, signal, headers, query: { ...query, limit: 1 } };
      return (await get<Page<Row>>(`/api/entities/${entity}/records`, options)).total;
    },
  });

const TENANTS_TO_CHOOSE = 20;

/** The newest tenants whose slug or name contains the text. */
export const tenantsQuery = (search: string) =>
  queryOptions({
    queryKey: [null, null, 'tenants', search],
    queryFn: ({ signal }) =>
      get<Page<Tenant>>('/api/admin/platform/tenants', { signal, query: { limit: TENANTS_TO_CHOOSE, search } }),
    placeholderData: keepPreviousData,
  });
