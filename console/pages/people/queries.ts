// What the pages about people, keys and roles ask for: users by page and search, invitations that wait, roles.
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { Page } from '../../api/answers.ts';
import { get } from '../../api/call.ts';
import { keyOf } from '../../api/queries.ts';

export interface User {
  id: string;
  email: string;
  name: string;
  role: string;
  isActive: boolean;
  createdAt: string;
}

export interface Invitation {
  id: string;
  email: string | null;
  kind: 'member' | 'platform';
  createdAt: string;
  expiresAt: string;
}

export const PAGE_SIZE = 50;
/** Pending invitations are few; the newest are shown. */
const INVITATIONS_SHOWN = 100;

export const usersQuery = (tenant: string, page: number, search: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'users', page, search),
    queryFn: ({ signal }) =>
      get<Page<User>>('/api/users', { tenant, signal, query: { page, limit: PAGE_SIZE, search } }),
    placeholderData: keepPreviousData,
  });

export const invitationsQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'invitations'),
    queryFn: async ({ signal }) => {
      const query = { status: 'pending', limit: INVITATIONS_SHOWN };
      const { items } = await get<Page<Invitation>>('/api/invitations', { tenant, signal, query });
      return items.filter(({ kind }) => kind === 'member');
    },
  });

export const roleNamesQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'roles', 'names'),
    queryFn: async ({ signal }) =>
      (await get<{ name: string }[]>('/api/roles', { tenant, signal })).map(({ name }) => name),
  });
