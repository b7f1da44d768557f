// Whom a subscription is for, and what it sends besides the record: a role, a condition, fields, what is included.
import { useQuery } from '@tanstack/react-query';
import { rolesQuery } from '../access/queries.ts';
import type { Entity } from '../api/answers.ts';
import { INCLUDES, type Subscription } from '../api/webhooks.ts';
import { useParams } from '../app/params.ts';
import { ConditionField } from '../filter/condition.tsx';
import { Combobox } from '../parts/combobox.tsx';
import { Checkbox, Select } from '../parts/field.tsx';

/** As the form holds it: empty where the subscription does not use a member. */
export interface Audience {
  role: string;
  filters: string;
  fields: readonly string[];
  include: readonly string[];
}

export const EVERYTHING: Audience = { role: '', filters: '', fields: [], include: [] };

export function audienceOf({ role = '', filters = '', fields = [], include = [] }: Subscription): Audience {
  return { role, filters, fields, include };
}

/** The members as the API takes them: null for one that is not used. */
export function membersOf({ role, filters, fields, include }: Audience): Record<string, unknown> {
  return {
    role: role || null,
    filters: filters.trim() || null,
    fields: fields.length === 0 ? null : fields,
    include: include.length === 0 ? null : include,
  };
}

const INCLUDED: Record<(typeof INCLUDES)[number], string> = {
  previous: 'previous: the record before an update',
  cursor: 'cursor: where to go on in the feed of changes',
};

interface Props {
  /** Undefined for all entities. */
  entity: Entity | undefined;
  value: Audience;
  problems: Record<string, string>;
  /** Receives a function from the latest value to the new one: a field may report its change after another one has. */
  onChange: (change: (before: Audience) => Audience) => void;
}

export function AudienceFields({ entity, value, problems, onChange }: Props) {
  const { tenant } = useParams();
  const { data: roles } = useQuery(rolesQuery(tenant));
  const names = [...new Set([...(roles ?? []).map(({ name }) => name), value.role])].filter(Boolean);
  const set = (part: Partial<Audience>): void => onChange((before) => ({ ...before, ...part }));
  const include = (part: (typeof INCLUDES)[number], isIncluded: boolean): void =>
    onChange((before) => ({
      ...before,
      include: INCLUDES.filter((one) => (one === part ? isIncluded : before.include.includes(one))),
    }));
  return (
    <>
      <Select
        label="Role"
        hint="Sends the records and fields that this role may see when it is sent."
        value={value.role}
        error={problems.role}
        onChange={({ target }) => set({ role: target.value })}
      >
        <option value="">none: whole records</option>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </Select>
      {entity === undefined ? (
        <p className="caption">A filter and a choice of fields need one entity.</p>
      ) : (
        <>
          <ConditionField
            label="Filter"
            optional
            hint="Sends changes of records that match it after the change, or before a deletion."
            entity={entity}
            value={value.filters}
            error={problems.filters}
            onChange={(filters) => set({ filters })}
          />
          <Combobox
            label="Fields"
            optional
            multiple
            placeholder={value.fields.length === 0 ? 'all' : 'add another'}
            options={entity.fields.map(({ key, label }) => ({
              value: key,
              label: key,
              ...(label ? { detail: label } : {}),
            }))}
            value={value.fields}
            error={Object.entries(problems).find(([path]) => path.startsWith('fields'))?.[1]}
            onChange={(fields) => set({ fields })}
          />
        </>
      )}
      <fieldset className="webhook-choices">
        <legend>Include</legend>
        {INCLUDES.map((part) => (
          <Checkbox
            key={part}
            label={INCLUDED[part]}
            checked={value.include.includes(part)}
            onChange={({ target }) => include(part, target.checked)}
          />
        ))}
      </fieldset>
    </>
  );
}
