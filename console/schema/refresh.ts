// After a change of the schema everything of the tenant is read again, but for counts: an open dialog may count by a field
// that is gone.
import type { QueryClient } from '@tanstack/react-query';
import { keyOf } from '../api/queries.ts';

export function refreshSchema(client: QueryClient, tenant: string): Promise<void> {
  return client.invalidateQueries({ queryKey: keyOf(tenant), predicate: ({ queryKey }) => queryKey[2] !== 'count' });
}
