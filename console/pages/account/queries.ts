// The person's own sessions.
import { queryOptions } from '@tanstack/react-query';
import { get } from '../../api/call.ts';
import { keyOf } from '../../api/queries.ts';

export interface OwnSession {
  id: string;
  createdAt: string;
  /** Accurate to a minute. */
  lastUsedAt: string;
  userAgent: string | null;
  address: string;
  /** Whether it is the one of this page. */
  current: boolean;
}

export const sessionsQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'sessions'),
    queryFn: ({ signal }) => get<OwnSession[]>('/api/auth/sessions', { tenant, signal }),
  });
