// The control of a field by its type, in forms: what is typed is a text that `parseText` understands, '' for no value.
// Relations are found by search, dates are picked, options chosen.
import type { Field } from '../api/answers.ts';
import { Combobox } from '../parts/combobox.tsx';
import { Select, TextAreaField, TextField } from '../parts/field.tsx';
import { RelationField } from './relation-field.tsx';
import { listText, parseText } from './values.ts';

interface Props {
  field: Field;
  tenant: string;
  /** As typed. */
  value: string;
  error: string | undefined;
  onChange: (text: string) => void;
  disabled?: boolean;
}

const LONG_TEXT = 80;
/** From there a choice is made by typing. */
const MOST_IN_A_SELECT = 7;

export function FieldControl({ field, tenant, value, error, onChange, disabled = false }: Props) {
  const common = {
    label: field.label ?? field.key,
    error,
    optional: !field.required,
    ...(field.description ? { hint: field.description } : {}),
  };
  if (field.entity && (field.type === 'relation' || field.type === 'relations')) {
    return (
      <RelationField
        {...common}
        tenant={tenant}
        entity={field.entity}
        multiple={field.type === 'relations'}
        value={listed(field, value)}
        onChange={(ids) => onChange(field.type === 'relations' ? listText(ids) : (ids[0] ?? ''))}
        disabled={disabled}
      />
    );
  }
  const options = field.options ?? [];
  if (field.type === 'multiselect' || (field.type === 'select' && options.length > MOST_IN_A_SELECT)) {
    const isList = field.type === 'multiselect';
    return (
      <Combobox
        {...common}
        options={options.map((option) => ({ value: option, label: option }))}
        multiple={isList}
        value={isList ? listed(field, value) : value === '' ? [] : [value]}
        onChange={(chosen) => onChange(isList ? listText(chosen) : (chosen[0] ?? ''))}
        disabled={disabled}
      />
    );
  }
  const attributes = {
    ...common,
    value,
    disabled,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  if (field.type === 'boolean' || field.type === 'select') {
    const names = field.type === 'boolean' ? ['true', 'false'] : options;
    return (
      <Select {...attributes}>
        <option value="">—</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {field.type === 'boolean' ? (name === 'true' ? 'yes' : 'no') : name}
          </option>
        ))}
      </Select>
    );
  }
  if (field.type === 'json' || value.includes('\n') || (field.type === 'text' && value.length > LONG_TEXT)) {
    const rows = Math.min(12, Math.max(4, value.split('\n').length + 1));
    return <TextAreaField {...attributes} rows={rows} className={field.type === 'json' ? 'input mono' : 'input'} />;
  }
  if (field.type === 'date') return <TextField {...attributes} type="date" />;
  if (field.type === 'datetime') return <TextField {...attributes} type="datetime-local" step={1} />;
  const isNumber = ['integer', 'number', 'decimal'].includes(field.type);
  return <TextField {...attributes} {...(isNumber ? { inputMode: 'decimal' as const } : {})} />;
}

/** The members of a typed list. */
function listed(field: Field, text: string): string[] {
  if (field.type === 'relation') return text === '' ? [] : [text];
  const parsed = parseText(field, text);
  return 'value' in parsed && Array.isArray(parsed.value) ? parsed.value : [];
}
