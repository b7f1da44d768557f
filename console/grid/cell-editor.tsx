// The editor over a cell. Enter saves and goes down, Tab saves and goes right, Esc discards; leaving it saves. A text that
// cannot be a value stays, with the reason under it.
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { Field } from '../api/answers.ts';
import { editText, parseText } from './values.ts';

interface Step {
  down: number;
  right: number;
}

interface Props {
  field: Field;
  value: unknown;
  /** What was typed to open the editor, which replaces the value; null to edit the value. */
  typed: string | null;
  onSave: (value: unknown, step: Step) => void;
  onCancel: () => void;
}

const NONE = '\u0000none';

export function CellEditor({ field, value, typed, onSave, onCancel }: Props) {
  const control = useRef<HTMLInputElement & HTMLSelectElement & HTMLTextAreaElement>(null);
  const options = optionsOf(field);
  const [text, setText] = useState(() =>
    options === null ? (typed ?? editText(field, value)) : editText(field, value),
  );
  const [problem, setProblem] = useState<string | null>(null);
  const isOver = useRef(false);
  useEffect(() => {
    control.current?.focus();
    if (typed === null && control.current instanceof HTMLInputElement) control.current.select();
  }, [typed]);
  const save = (step: Step): void => {
    if (isOver.current) return;
    const parsed = text === NONE ? { value: null } : parseText(field, text);
    if ('problem' in parsed) return void setProblem(parsed.problem);
    isOver.current = true;
    // An empty text of a field that had no value is no change.
    onSave(parsed.value === '' && value == null ? null : parsed.value, step);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const isLine = event.key === 'Enter' && event.shiftKey && (field.type === 'text' || field.type === 'json');
    if (event.key === 'Escape') {
      isOver.current = true;
      onCancel();
    } else if (event.key === 'Enter' && !isLine) save({ down: event.shiftKey ? -1 : 1, right: 0 });
    else if (event.key === 'Tab') save({ down: 0, right: event.shiftKey ? -1 : 1 });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const attributes = {
    ref: control,
    className: 'cell-input',
    'aria-label': field.label ?? field.key,
    'aria-invalid': problem === null ? undefined : (true as const),
    value: text,
    onKeyDown,
    onBlur: () => save({ down: 0, right: 0 }),
    onChange: (event: { target: { value: string } }) => {
      setText(event.target.value);
      setProblem(null);
    },
  };
  return (
    <>
      {options === null ? (
        <TextControl field={field} attributes={attributes} text={text} />
      ) : (
        <select {...attributes} value={text === '' ? NONE : text}>
          <option value={NONE}>—</option>
          {options.map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      )}
      {problem !== null && (
        <span className="cell-message" role="alert">
          {field.label ?? field.key} {problem}
        </span>
      )}
    </>
  );
}

// biome-ignore lint/suspicious/noExplicitAny: the attributes of an input and of a text area in one
function TextControl({ field, attributes, text }: { field: Field; attributes: any; text: string }) {
  if (field.type === 'json' || text.includes('\n'))
    return <textarea {...attributes} rows={Math.min(8, text.split('\n').length + 1)} />;
  const isNumber = ['integer', 'number', 'decimal'].includes(field.type);
  const hint = { date: 'YYYY-MM-DD', datetime: 'YYYY-MM-DD HH:MM' }[field.type as string];
  return (
    <input
      type="text"
      autoComplete="off"
      placeholder={hint}
      inputMode={isNumber ? 'decimal' : undefined}
      {...attributes}
    />
  );
}

function optionsOf(field: Field): [name: string, label: string][] | null {
  if (field.type === 'boolean') {
    return [
      ['true', 'yes'],
      ['false', 'no'],
    ];
  }
  return field.type === 'select' ? (field.options ?? []).map((name) => [name, name]) : null;
}
