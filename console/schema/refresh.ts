// After a change of the schema everything of the tenant is read again, but for dry runs: an open dialog would try again
// what has just been done.
import type { QueryClient } from '@tanstack/react-query';
import { keyOf } from '../api/queries.ts';

export function refreshSchema(client: QueryClient, tenant: string): Promise<void> {
  return client.invalidateQueries({ queryKey: keyOf(tenant), predicate: ({ queryKey }) => queryKey[2] !== 'dry-run' });
}
