// A field that chooses one of the tenant's people, searched by name and e-mail on the service.
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import type { Page } from '../api/answers.ts';
import { get } from '../api/call.ts';
import { keyOf } from '../api/queries.ts';
import { Combobox } from '../parts/combobox.tsx';
import type { FieldProps } from '../parts/field.tsx';
import type { Person } from './as-person.ts';

interface Props extends FieldProps {
  tenant: string;
  value: Person | null;
  onChange: (person: Person | null) => void;
}

const MOST_HITS = 20;

export function PersonField({ tenant, value, onChange, ...field }: Props) {
  const [text, setText] = useState('');
  const search = useDeferredValue(text.trim());
  const { data, isFetching } = useQuery({
    queryKey: keyOf(tenant, 'users', 'choice', search),
    queryFn: ({ signal }) => get<Page<Person>>('/api/users', { tenant, signal, query: { search, limit: MOST_HITS } }),
    placeholderData: keepPreviousData,
  });
  const people = data?.items ?? [];
  return (
    <Combobox
      {...field}
      options={people.map(({ id, email }) => ({ value: id, label: email }))}
      value={value === null ? [] : [value.id]}
      onChange={([id]) => onChange(people.find((person) => person.id === id) ?? null)}
      onType={setText}
      isSearching={isFetching}
      {...(data?.total == null ? {} : { total: data.total })}
    />
  );
}
