// The action of a rule, by its type: a message, or values by field, which may hold {{field}} of the record.
import type { Entity } from '../../api/answers.ts';
import { editText, parseText } from '../../grid/values.ts';
import { Button } from '../../parts/button.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { TextAreaField, TextField } from '../../parts/field.tsx';
import type { Action } from './rule.ts';

interface Props {
  action: Action;
  entity: Entity;
  entities: readonly Entity[];
  problems: Record<string, string>;
  onChange: (action: Action) => void;
}

export function ActionFields({ action, entity, entities, problems, onChange }: Props) {
  const set = (part: Partial<Action>): void => onChange({ ...action, ...part });
  if (action.type === 'reject') {
    return (
      <TextField
        label="Message"
        hint="Shown to the person or program"
        value={action.message ?? ''}
        error={problems['action.message']}
        onChange={(event) => set({ message: event.target.value })}
      />
    );
  }
  if (action.type === 'send_message') {
    return (
      <>
        {(['to_agent', 'subject'] as const).map((name) => (
          <TextField
            key={name}
            label={name === 'subject' ? 'Subject' : 'Bot, by name or id'}
            value={action[name] ?? ''}
            error={problems[`action.${name}`]}
            onChange={(event) => set({ [name]: event.target.value })}
          />
        ))}
        <TextAreaField
          label="Text"
          hint="{{field}} inserts a value of the record"
          value={action.body ?? ''}
          error={problems['action.body']}
          onChange={(event) => set({ body: event.target.value })}
        />
      </>
    );
  }
  const target = action.type === 'create_record' ? entities.find(({ name }) => name === action.entity) : entity;
  return (
    <>
      {action.type === 'create_record' && (
        <Combobox
          label="Entity of the new record"
          options={entities.map(({ name }) => ({ value: name, label: name }))}
          value={action.entity ? [action.entity] : []}
          error={problems['action.entity']}
          onChange={([name = '']) => set({ entity: name, values: {} })}
        />
      )}
      {target !== undefined && (
        <Values
          target={target}
          values={action.values ?? {}}
          problems={problems}
          onChange={(values) => set({ values })}
        />
      )}
    </>
  );
}

interface ValuesProps {
  target: Entity;
  values: Record<string, unknown>;
  problems: Record<string, string>;
  onChange: (values: Record<string, unknown>) => void;
}

function Values({ target, values, problems, onChange }: ValuesProps) {
  const rest = target.fields.filter(({ key }) => !(key in values));
  const without = (key: string) => Object.fromEntries(Object.entries(values).filter(([name]) => name !== key));
  return (
    <fieldset className="builder">
      <legend>Values</legend>
      {Object.entries(values).map(([key, value]) => {
        const field = target.fields.find((one) => one.key === key);
        return (
          <div className="rules-value" key={key}>
            <TextField
              label={field?.label ?? key}
              className="mono"
              defaultValue={field === undefined ? String(value) : editText(field, value)}
              error={problems[`action.values.${key}`]}
              onChange={({ target: { value: text } }) => {
                const parsed = field === undefined || text.includes('{{') ? { value: text } : parseText(field, text);
                onChange({ ...values, [key]: 'value' in parsed ? parsed.value : text });
              }}
            />
            <Button kind="quiet" icon="x" aria-label={`Remove ${key}`} onClick={() => onChange(without(key))} />
          </div>
        );
      })}
      {problems['action.values'] !== undefined && <p className="field-error">Values {problems['action.values']}</p>}
      {rest.length > 0 && (
        <select
          className="input narrow"
          aria-label="Add a value"
          value=""
          onChange={(event) => onChange({ ...values, [event.target.value]: '' })}
        >
          <option value="">Add a value…</option>
          {rest.map(({ key, label }) => (
            <option key={key} value={key}>
              {label ?? key}
            </option>
          ))}
        </select>
      )}
    </fieldset>
  );
}
