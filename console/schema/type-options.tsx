// The part of a field's form that depends on its type: options, the target of a link, limits, the default.
import type { Entity } from '../api/answers.ts';
import { Combobox } from '../parts/combobox.tsx';
import { Select, TextAreaField, TextField } from '../parts/field.tsx';
import { TYPES } from './attributes.ts';
import { type Draft, optionsOf } from './field-draft.ts';

interface Props {
  draft: Draft;
  problems: Record<string, string>;
  entities: readonly Entity[];
  set: (part: Partial<Draft>) => void;
}

const LIMITS = {
  min: 'Smallest value',
  max: 'Largest value',
  minLength: 'Fewest characters',
  maxLength: 'Most characters',
} as const;

export function TypeOptions({ draft, problems, entities, set }: Props) {
  const { attributes } = TYPES[draft.type];
  const limits = (Object.keys(LIMITS) as (keyof typeof LIMITS)[]).filter((name) => attributes.includes(name));
  return (
    <>
      {attributes.includes('options') && (
        <TextAreaField
          label="Options"
          hint={`One per line. ${optionsOf(draft).length} so far.`}
          rows={5}
          value={draft.options}
          error={problems.options}
          onChange={(event) => set({ options: event.target.value })}
        />
      )}
      {attributes.includes('entity') && (
        <div className="schema-pair">
          <Combobox
            label="Entity that it links to"
            options={entities.map(({ name }) => ({ value: name, label: name }))}
            value={draft.entity === '' ? [] : [draft.entity]}
            error={problems.entity}
            onChange={([name = '']) => set({ entity: name })}
          />
          <Select
            label="When the linked record is deleted"
            value={draft.onDelete}
            error={problems.onDelete}
            onChange={(event) => set({ onDelete: event.target.value })}
          >
            <option value="restrict">prevent the deletion</option>
            <option value="set_null">remove the link</option>
            <option value="cascade">delete this record too</option>
          </Select>
        </div>
      )}
      {limits.length > 0 && (
        <div className="schema-pair">
          {limits.map((name) => (
            <TextField
              key={name}
              label={LIMITS[name]}
              optional
              inputMode="decimal"
              value={draft[name]}
              error={problems[name]}
              onChange={(event) => set({ [name]: event.target.value })}
            />
          ))}
        </div>
      )}
      {attributes.includes('pattern') && (
        <TextField
          label="Pattern"
          optional
          className="mono"
          hint="A regular expression (RE2) that must be found in the value"
          value={draft.pattern}
          error={problems.pattern}
          onChange={(event) => set({ pattern: event.target.value })}
        />
      )}
      {!attributes.includes('entity') && <Default {...{ draft, problems, set }} />}
    </>
  );
}

function Default({ draft, problems, set }: Omit<Props, 'entities'>) {
  const common = {
    label: 'Default',
    optional: true,
    error: problems.default,
    value: draft.default,
    hint: draft.required ? 'Needed if the entity already has records: they get this value.' : undefined,
  };
  const options = draft.type === 'boolean' ? ['true', 'false'] : draft.type === 'select' ? optionsOf(draft) : null;
  if (options !== null) {
    return (
      <Select {...common} onChange={(event) => set({ default: event.target.value })}>
        <option value="">none</option>
        {options.map((option) => (
          <option key={option} value={option}>
            {draft.type === 'boolean' ? (option === 'true' ? 'yes' : 'no') : option}
          </option>
        ))}
      </Select>
    );
  }
  return <TextField {...common} onChange={(event) => set({ default: event.target.value })} />;
}
