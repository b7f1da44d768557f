// Whom an explanation is about: a role, a person, or a credential of a kind.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Combobox, type Option } from '../parts/combobox.tsx';
import { Select } from '../parts/field.tsx';
import type { Person } from './as-person.ts';
import {
  APIS,
  BOTS,
  type Bot,
  type Key,
  keysOfApi,
  listQuery,
  OWNER,
  type PlatformApi,
  PUBLIC,
} from './credentials.ts';
import { KINDS, type Kind, type Subject } from './explain.ts';
import { PersonField } from './person-field.tsx';
import { rolesQuery } from './queries.ts';

interface Props {
  tenant: string;
  value: Subject | null;
  onChange: (subject: Subject | null) => void;
}

export function SubjectField({ tenant, value, onChange }: Props) {
  const [kind, setKind] = useState<Kind | 'role'>('role');
  const of = (id: string | undefined): void =>
    onChange(id === undefined ? null : { as: kind === 'role' ? { role: id } : { kind, id }, person: null });
  return (
    <>
      <Select
        label="Who"
        value={kind}
        onChange={({ target }) => {
          setKind(target.value as Kind | 'role');
          onChange(null);
        }}
      >
        <option value="role">Role</option>
        {Object.entries(KINDS).map(([one, name]) => (
          <option key={one} value={one}>
            {name}
          </option>
        ))}
      </Select>
      <Which key={kind} {...{ tenant, kind, value }} onChange={onChange} onId={of} />
    </>
  );
}

interface WhichProps extends Props {
  kind: Kind | 'role';
  onId: (id: string | undefined) => void;
}

function Which({ tenant, kind, value, onChange, onId }: WhichProps) {
  const id = value === null ? undefined : 'role' in value.as ? value.as.role : value.as.id;
  const given = { tenant, id, onId };
  if (kind === 'role') return <RoleChoice {...given} />;
  if (kind === 'owner_key') return <Choice {...given} label={KINDS[kind]} path={OWNER} optionOf={keyOption} />;
  if (kind === 'public_key') return <Choice {...given} label={KINDS[kind]} path={PUBLIC} optionOf={keyOption} />;
  if (kind === 'bot') return <Choice {...given} label={KINDS[kind]} path={BOTS} optionOf={botOption} />;
  if (kind === 'platform_key') return <PlatformKeyChoice {...given} />;
  return <PersonChoice {...{ tenant, kind, onChange }} />;
}

/** A developer token acts as its person, but `$currentUser.kind` tells them apart. */
function PersonChoice({ tenant, kind, onChange }: { tenant: string; kind: Kind; onChange: Props['onChange'] }) {
  const [person, setPerson] = useState<Person | null>(null);
  return (
    <PersonField
      label="Person"
      tenant={tenant}
      value={person}
      onChange={(next) => {
        setPerson(next);
        onChange(next && { as: { kind, id: next.id }, person: kind === 'user' ? next : null });
      }}
    />
  );
}

interface ChoiceProps {
  tenant: string;
  id: string | undefined;
  onId: (id: string | undefined) => void;
}

function RoleChoice({ tenant, id, onId }: ChoiceProps) {
  const { data = [] } = useQuery(rolesQuery(tenant));
  const options = data.map(({ name }) => ({ value: name, label: name }));
  return (
    <Combobox label="Role" options={options} value={id === undefined ? [] : [id]} onChange={([one]) => onId(one)} />
  );
}

const keyOption = ({ id, label, keyPrefix }: Key): Option => ({
  value: id,
  label: label ?? keyPrefix,
  detail: keyPrefix,
});
const botOption = ({ id, name }: Bot): Option => ({ value: id, label: name });

interface ListedProps<T> extends ChoiceProps {
  label: string;
  path: string;
  optionOf: (one: T) => Option;
}

function Choice<T>({ tenant, id, onId, label, path, optionOf }: ListedProps<T>) {
  const { data = [], isFetching } = useQuery(listQuery<T>(tenant, path));
  return (
    <Combobox
      label={label}
      options={data.map(optionOf)}
      value={id === undefined ? [] : [id]}
      onChange={([one]) => onId(one)}
      isSearching={isFetching}
    />
  );
}

const apiOption = ({ id, name, slug }: PlatformApi): Option => ({ value: id, label: name, detail: slug });

/** Its keys are listed by API. */
function PlatformKeyChoice({ tenant, id, onId }: ChoiceProps) {
  const [api, setApi] = useState<string>();
  const choose = (one: string | undefined): void => {
    setApi(one);
    onId(undefined);
  };
  return (
    <>
      <Choice {...{ tenant, id: api }} onId={choose} label="Platform API" path={APIS} optionOf={apiOption} />
      {api !== undefined && (
        <Choice
          key={api}
          {...{ tenant, id, onId }}
          label={KINDS.platform_key}
          path={keysOfApi(api)}
          optionOf={keyOption}
        />
      )}
    </>
  );
}
