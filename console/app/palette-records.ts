// Records for the palette: by search over the first entities, or by a pasted id. Asked 150 ms after the last letter.
import { useQueries, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { Page, Row } from '../api/answers.ts';
import { get } from '../api/call.ts';
import { entitiesQuery, keyOf } from '../api/queries.ts';
import { titleOf } from '../parts/value.ts';
import type { Hit } from './palette.tsx';
import type { Rights } from './rights.ts';

const MOST_ENTITIES = 5;
const PER_ENTITY = 4;
const PAUSE_MS = 150;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function useRecordHits(
  tenant: string | null,
  rights: Rights,
  text: string,
): { hits: Hit[]; isSearching: boolean } {
  const { data: entities = [] } = useQuery({ ...entitiesQuery(tenant ?? ''), enabled: tenant !== null });
  const wanted = useSettled(text.trim());
  const isId = ID.test(wanted);
  const isWanted = tenant !== null && !text.startsWith('>') && wanted.length >= 2;
  const readable = entities.filter(({ name }) => rights.may('read', name));
  const results = useQueries({
    queries: (isId ? readable.slice(0, 50) : readable.slice(0, MOST_ENTITIES)).map((entity) => ({
      queryKey: keyOf(tenant, 'palette', entity.name, wanted),
      enabled: isWanted,
      retry: false,
      queryFn: async ({ signal }: { signal: AbortSignal }) => {
        const path = `/api/entities/${entity.name}/records`;
        const query = isId
          ? { filters: `id = "${wanted}"`, limit: 1, count: 'none' }
          : { search: wanted, limit: PER_ENTITY, count: 'none' };
        const { items } = await get<Page<Row>>(path, { tenant, signal, query });
        return items.map(
          (row): Hit => ({
            id: row.id,
            label: titleOf(row, entity.fields),
            detail: entity.name,
            icon: 'file-text',
            path: `/app/t/${tenant}/records/${entity.name}/${row.id}`,
          }),
        );
      },
    })),
  });
  return {
    hits: isWanted ? results.flatMap(({ data }) => data ?? []) : [],
    isSearching: isWanted && results.some(({ isFetching }) => isFetching),
  };
}

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
