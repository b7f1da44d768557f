// The number of records by entity. Admins get all in one call; others one call for each entity that is shown.
import { useQueries, useQuery } from '@tanstack/react-query';
import { get } from '../../api/call.ts';
import { countQuery, keyOf } from '../../api/queries.ts';

export interface Usage {
  now: { records: Record<string, number>; storageBytes: number; users: number };
  days: { day: string; requests: number; writes: number; deliveries: number }[];
}

export function useUsage(tenant: string, isAdmin: boolean) {
  return useQuery({
    queryKey: keyOf(tenant, 'usage'),
    queryFn: ({ signal }) => get<Usage>('/api/tenant/usage', { tenant, signal }),
    enabled: isAdmin,
  });
}

/** By name; without a member for what is not known yet. */
export function useEntityCounts(
  tenant: string,
  isAdmin: boolean,
  names: readonly string[],
): Record<string, number | null> {
  const { data } = useUsage(tenant, isAdmin);
  const counts = useQueries({
    queries: names.map((name) => ({ ...countQuery(tenant, name), enabled: !isAdmin, retry: false, staleTime: 60_000 })),
  });
  if (isAdmin) return data?.now.records ?? {};
  return Object.fromEntries(names.map((name, at) => [name, counts[at]?.data ?? null]));
}
