// A field that holds one or several records of another entity, found by `search`: the title of a hit and the beginning of
// its id. The values are ids, as the API takes them.
import { useQuery } from '@tanstack/react-query';
import { useDeferredValue, useMemo, useState } from 'react';
import type { Page, Row } from '../api/answers.ts';
import { get } from '../api/call.ts';
import { entityQuery, keyOf } from '../api/queries.ts';
import { Combobox, type Option } from '../parts/combobox.tsx';
import type { FieldProps } from '../parts/field.tsx';
import { titleOf } from '../parts/value.ts';

const MOST_HITS = 20;

interface Props extends FieldProps {
  tenant: string;
  /** The entity that the field refers to. */
  entity: string;
  value: readonly string[];
  onChange: (ids: string[]) => void;
  multiple?: boolean;
  /** What is searched for at first. */
  typed?: string;
  disabled?: boolean;
}

export function RelationField({ tenant, entity, value, onChange, ...rest }: Props) {
  const [text, setText] = useState(rest.typed ?? '');
  const wanted = useDeferredValue(text.trim());
  const { data: target } = useQuery(entityQuery(tenant, entity));
  const list = (name: string, query: Record<string, string | number>, enabled: boolean) => ({
    queryKey: keyOf(tenant, name, entity, query),
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      get<Page<Row>>(`/api/entities/${entity}/records`, { tenant, signal, query }),
    enabled,
  });
  const hits = useQuery({
    ...list('relation', { search: wanted, limit: MOST_HITS }, true),
    placeholderData: (previous) => previous,
  });
  const chosen = useQuery(
    list('relation-chosen', { filters: `id in (${value.join(', ')})`, limit: 100, count: 'none' }, value.length > 0),
  );
  const options = useMemo((): Option[] => {
    const rows = new Map([...(chosen.data?.items ?? []), ...(hits.data?.items ?? [])].map((row) => [row.id, row]));
    return [...rows.values()].map((row) => ({
      value: row.id,
      label: titleOf(row, target?.fields),
      detail: row.id.slice(0, 8),
    }));
  }, [chosen.data, hits.data, target]);
  return (
    <Combobox
      {...rest}
      options={options}
      value={value}
      onChange={onChange}
      onType={setText}
      isSearching={hits.isFetching}
      {...(hits.data?.total == null ? {} : { total: hits.data.total })}
    />
  );
}
