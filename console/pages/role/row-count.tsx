// How many records a row filter leaves visible, counted by the service once the typing rests. A filter that names
// `$currentUser` is counted as "See as this role" reads, without a person, and for a person whom one chooses.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { dependsOnPerson, filterFor, type Person } from '../../access/as-person.ts';
import { PersonField } from '../../access/person-field.tsx';
import type { Entity } from '../../api/answers.ts';
import { AS_ROLE } from '../../api/call.ts';
import { ApiError, problemsByField } from '../../api/errors.ts';
import { countQuery, entitiesQuery } from '../../api/queries.ts';
import { sentenceOf } from '../../parts/error-panel.tsx';

const PAUSE_MS = 400;
/** Longer ones do not fit a link; the service checks them on saving. */
const LONGEST = 2_000;
/** A role that sees everything: as it, a filter is counted without a person, and nothing else narrows the count. */
const WITHOUT_PERSON = { [AS_ROLE]: 'owner' };

export interface CheckedFilter {
  /** The filter that was checked; null while it is typed, empty, or too long to be checked. */
  filter: string | null;
  problem: string | undefined;
  matching: number | null | undefined;
  isEmpty: boolean;
}

/** What the service says about the filter once the typing rests: its problem, or how many records match. */
export function useCheckedFilter(tenant: string, entity: string, filter: string): CheckedFilter {
  const [rested, setRested] = useState(filter);
  useEffect(() => {
    const timer = setTimeout(() => setRested(filter), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [filter]);
  const wanted = rested.trim();
  const isChecked = wanted !== '' && wanted.length <= LONGEST;
  const { data: matching, error } = useQuery({
    ...countQuery(tenant, entity, { filters: wanted }, dependsOnPerson(wanted) ? WITHOUT_PERSON : {}),
    enabled: isChecked,
    retry: false,
  });
  const isCurrent = isChecked && rested === filter;
  return {
    filter: isCurrent ? wanted : null,
    problem: isCurrent && error !== null ? problemOf(error) : undefined,
    matching: isCurrent ? matching : undefined,
    isEmpty: filter.trim() === '',
  };
}

function problemOf(error: unknown): string {
  return problemsByField(error).filters ?? sentenceOf(error instanceof ApiError ? error : new Error(String(error)));
}

interface Props {
  tenant: string;
  role: string;
  entity: Entity;
  check: CheckedFilter;
}

export function RowCount({ tenant, role, entity, check }: Props) {
  const { filter, matching, isEmpty } = check;
  const { data: total } = useQuery(countQuery(tenant, entity.name));
  const isPersonal = filter !== null && dependsOnPerson(filter);
  return (
    <>
      <p className="caption" role="status">
        {isEmpty
          ? `${role} sees every record of ${entity.name}.`
          : matching == null || total == null
            ? 'Counting…'
            : isPersonal
              ? `Without a person, as in “See as this role”, ${role} sees ${share(matching, total)}. With a person it depends on who they are.`
              : `${role} sees ${share(matching, total)}.`}
      </p>
      {isPersonal && <ForPerson {...{ tenant, role, entity, filter }} total={total} />}
    </>
  );
}

function ForPerson({
  tenant,
  role,
  entity,
  filter,
  total,
}: Omit<Props, 'check'> & { filter: string; total: number | null | undefined }) {
  const [person, choose] = useState<Person | null>(null);
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const own = person === null ? null : filterFor(filter, person, role, entity, entities);
  const { data: matching } = useQuery({
    ...countQuery(tenant, entity.name, { filters: own ?? '' }),
    enabled: own !== null,
    retry: false,
  });
  return (
    <PersonField
      label="Count for a person"
      optional
      tenant={tenant}
      value={person}
      onChange={choose}
      hint={
        <span role="status">
          {own !== null && person !== null && matching != null && total != null
            ? `${person.email} as ${role} sees ${share(matching, total)}.`
            : ''}
        </span>
      }
    />
  );
}

const share = (matching: number, total: number): string =>
  `${matching.toLocaleString('en')} of ${total.toLocaleString('en')} ${total === 1 ? 'record' : 'records'}`;
