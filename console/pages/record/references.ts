// What refers to a record: each field of each entity that leads to its entity, with the first records and their number.
import { useQueries, useQuery } from '@tanstack/react-query';
import type { Entity, Field, Page, Row } from '../../api/answers.ts';
import { get } from '../../api/call.ts';
import { entitiesQuery, keyOf } from '../../api/queries.ts';
import { useRights } from '../../app/rights.ts';

/** More are named without being counted. */
const MOST_COUNTED = 20;
export const MOST_LISTED = 10;

export interface Reference {
  entity: Entity;
  field: Field;
  /** The condition that lists them. */
  filters: string;
  page: Page<Row> | undefined;
  error: unknown;
}

export function useReferences(tenant: string, entity: string, id: string, isWanted = true): Reference[] {
  const rights = useRights(tenant);
  const { data: entities = [] } = useQuery({ ...entitiesQuery(tenant), enabled: isWanted });
  const found = entities
    .filter(({ name }) => rights.may('read', name))
    .flatMap((other) =>
      other.fields
        .filter((field) => field.entity === entity && (field.type === 'relation' || field.type === 'relations'))
        .map((field) => ({
          entity: other,
          field,
          filters: `${field.key} ${field.type === 'relations' ? 'contains' : '='} "${id}"`,
        })),
    );
  const results = useQueries({
    queries: found.map(({ entity: { name }, filters }, at) => ({
      queryKey: keyOf(tenant, 'references', name, filters),
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        get<Page<Row>>(`/api/entities/${name}/records`, { tenant, signal, query: { filters, limit: MOST_LISTED } }),
      enabled: isWanted && at < MOST_COUNTED,
      staleTime: 5_000,
    })),
  });
  return found.map((one, at) => ({ ...one, page: results[at]?.data, error: results[at]?.error ?? null }));
}
