// A view as the API has it, its conditions as one text, and the views that the person may read.
import { queryOptions } from '@tanstack/react-query';
import type { View } from '../../client/src/client.ts';
import type { Page, Row } from './answers.ts';
import { get } from './call.ts';
import { keyOf } from './queries.ts';

export type { View };

/** All conditions must hold. */
export function conditionOf({ filterDsl: { validate } }: View): string {
  const [first] = validate;
  if (validate.length < 2) return first?.condition ?? '';
  return validate.map(({ condition }) => `(${condition})`).join(' AND ');
}

export const viewsQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'views'),
    queryFn: ({ signal }) => get<View[]>('/api/views', { tenant, signal }),
  });

/** The path of a view's records. */
export const recordsOf = (slug: string): string => `/api/views/${encodeURIComponent(slug)}/records`;

/** The number of a view's records. */
export const viewCountQuery = (tenant: string, view: View) =>
  queryOptions({
    queryKey: keyOf(tenant, 'view-count', view.slug, conditionOf(view)),
    queryFn: async ({ signal }) =>
      (await get<Page<Row>>(recordsOf(view.slug), { tenant, signal, query: { limit: 1 } })).total,
    retry: false,
    staleTime: 60_000,
  });
