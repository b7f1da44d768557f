// The four kinds of credentials for programs, as lists show them: never with their values.
import { queryOptions } from '@tanstack/react-query';
import { get } from '../api/call.ts';
import { keyOf } from '../api/queries.ts';
import type { Permissions } from './permissions.ts';

export interface Key {
  id: string;
  keyPrefix: string;
  label: string | null;
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
}

export interface PublicKey extends Key {
  roleId: string;
  allowedOrigins: string[];
  rateLimitPerDay: number;
}

export interface PlatformKey extends Key {
  role: string;
}

export interface PlatformApi {
  id: string;
  name: string;
  slug: string;
  roles: string[];
  permissions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
}

export interface Bot {
  id: string;
  name: string;
  permissions: { entities: Permissions };
  isActive: boolean;
  revokedAt: string | null;
  lastUsedAt: string | null;
  createdAt: string;
}

/** The paths of the API, which are the names of the queries too. */
export const OWNER = '/api/keys';
export const PUBLIC = '/api/auth/public-keys';
export const APIS = '/api/apis';
export const BOTS = '/api/auth/bots';
export const keysOfApi = (id: string): string => `${APIS}/${id}/keys`;

export const listQuery = <T>(tenant: string, path: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'credentials', path),
    queryFn: ({ signal }) => get<T[]>(path, { tenant, signal }),
  });
