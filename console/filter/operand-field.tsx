// The value of one condition, by the type of its field: a text, a number, a choice, a record, a day; or what is only known
// when the condition is asked: a time relative to now, or the person who asks.
import type { FieldType } from '../api/answers.ts';
import { RelationField } from '../grid/relation-field.tsx';
import type { Operand, Term } from './tree.ts';
import { type Choice, operandOf } from './words.ts';

interface Props {
  term: Term;
  field: Choice['field'];
  tenant: string;
  /** Names the condition, such as "condition 2". */
  name: string;
  problem: string | undefined;
  onChange: (operands: Operand[]) => void;
}

const ME: Readonly<Partial<Record<FieldType, readonly [variable: string, label: string][]>>> = {
  text: [
    ['$currentUser.id', 'me'],
    ['$currentUser.email', 'my e-mail'],
    ['$currentUser.role', 'my role'],
  ],
  email: [['$currentUser.email', 'my e-mail']],
  uuid: [['$currentUser.id', 'me']],
  relation: [['$currentUser.id', 'me']],
};
const RELATIVE = /^\$now(?:([+-])(\d+)([smhdw]))?$/;

export function OperandField(props: Props) {
  const { term, field, name, onChange } = props;
  if (term.operator === 'null' || term.operator === 'not null') return null;
  if (term.operator === 'in') return <Several {...props} />;
  const [operand = operandOf(field.type, '')] = term.operands;
  const modes = modesOf(field.type);
  const mode = modeOf(operand);
  return (
    <>
      {modes.length > 1 && (
        <select
          className="input builder-mode"
          aria-label={`Kind of value of ${name}`}
          value={mode}
          onChange={(event) => onChange([startOf(event.target.value, field.type)])}
        >
          {(modes.some(([key]) => key === mode) ? modes : [...modes, [mode, mode] as const]).map(([key, label]) => (
            <option key={key} value={key}>
              {label}
            </option>
          ))}
        </select>
      )}
      {mode === 'value' && <One {...props} operand={operand} />}
      {(mode === 'past' || mode === 'future') && <Span {...props} text={operand.text} />}
    </>
  );
}

function modesOf(type: FieldType): readonly (readonly [key: string, label: string])[] {
  if (type === 'date' || type === 'datetime') {
    return [
      ['value', type === 'date' ? 'on a day' : 'at a time'],
      ['past', 'ago'],
      ['$now', type === 'date' ? 'today' : 'now'],
      ['future', 'from now'],
    ];
  }
  return [['value', 'value'], ...(ME[type] ?? [])];
}

function modeOf({ text, form }: Operand): string {
  if (form !== 'variable') return 'value';
  const sign = RELATIVE.exec(text)?.[1];
  if (sign !== undefined) return sign === '-' ? 'past' : 'future';
  return text === '$currentUser' ? '$currentUser.id' : text;
}

function startOf(mode: string, type: FieldType): Operand {
  if (mode === 'value') return operandOf(type, '');
  if (mode === 'past' || mode === 'future') return { text: mode === 'past' ? '$now-7d' : '$now+7d', form: 'variable' };
  return { text: mode, form: 'variable' };
}

function Span({ text, name, onChange }: Props & { text: string }) {
  const [, sign = '-', count = '7', unit = 'd'] = RELATIVE.exec(text) ?? [];
  const set = (nextCount: string, nextUnit: string): void =>
    onChange([{ text: `$now${sign}${Number.parseInt(nextCount, 10) || 0}${nextUnit}`, form: 'variable' }]);
  return (
    <>
      <input
        className="input builder-number"
        type="number"
        min={0}
        max={999_999}
        aria-label={`Number of ${name}`}
        value={count}
        onChange={(event) => set(event.target.value.slice(0, 6), unit)}
      />
      <select
        className="input builder-mode"
        aria-label={`Unit of ${name}`}
        value={unit}
        onChange={(event) => set(count, event.target.value)}
      >
        <option value="m">minutes</option>
        <option value="h">hours</option>
        <option value="d">days</option>
        <option value="w">weeks</option>
        {unit === 's' && <option value="s">seconds</option>}
      </select>
    </>
  );
}

function One({ field, tenant, name, operand, problem, onChange }: Props & { operand: Operand }) {
  const label = `Value of ${name}`;
  const set = (text: string): void => onChange([operandOf(field.type, text)]);
  const options = field.type === 'boolean' ? ['true', 'false'] : (field.options ?? []);
  if (options.length > 0) {
    const known = options.includes(operand.text) ? options : [operand.text, ...options];
    return (
      <select className="input" aria-label={label} value={operand.text} onChange={(event) => set(event.target.value)}>
        {known.map((option) => (
          <option key={option} value={option}>
            {field.type === 'boolean' ? (option === 'true' ? 'yes' : 'no') : option}
          </option>
        ))}
      </select>
    );
  }
  if ((field.type === 'relation' || field.type === 'relations') && field.entity) {
    return (
      <RelationField
        label={label}
        tenant={tenant}
        entity={field.entity}
        value={operand.text === '' ? [] : [operand.text]}
        onChange={(ids) => set(ids[0] ?? '')}
      />
    );
  }
  const isNumber = field.type === 'integer' || field.type === 'number' || field.type === 'decimal';
  return (
    <input
      className="input"
      type={field.type === 'date' ? 'date' : field.type === 'datetime' ? 'datetime-local' : 'text'}
      inputMode={isNumber ? 'decimal' : undefined}
      autoComplete="off"
      aria-label={label}
      aria-invalid={problem === undefined ? undefined : true}
      value={field.type === 'datetime' ? localOf(operand.text) : operand.text}
      onChange={({ target }) => set(field.type === 'datetime' ? utcOf(target.value) : target.value)}
    />
  );
}

/** The value of a `datetime-local` input, in the person's zone. */
function localOf(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function utcOf(local: string): string {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? '' : at.toISOString();
}

/** The values of "is one of": choices to tick, records to pick, or texts separated by commas. */
function Several({ term, field, tenant, name, problem, onChange }: Props) {
  const texts = term.operands.map(({ text }) => text);
  const set = (next: readonly string[]): void =>
    onChange(next.map((text) => term.operands.find((one) => one.text === text) ?? operandOf(field.type, text)));
  if (field.options && field.options.length > 0) {
    return (
      <fieldset className="builder-options">
        <legend className="sr-only">Values of {name}</legend>
        {field.options.map((option) => (
          <label className="checkbox" key={option}>
            <input
              type="checkbox"
              checked={texts.includes(option)}
              onChange={() =>
                set(texts.includes(option) ? texts.filter((text) => text !== option) : [...texts, option])
              }
            />
            <span>{option}</span>
          </label>
        ))}
      </fieldset>
    );
  }
  if (field.type === 'relation' && field.entity) {
    return (
      <RelationField
        label={`Values of ${name}`}
        tenant={tenant}
        entity={field.entity}
        multiple
        value={texts.filter(Boolean)}
        onChange={set}
      />
    );
  }
  return (
    <input
      className="input"
      aria-label={`Values of ${name}`}
      placeholder="One, two, three"
      aria-invalid={problem === undefined ? undefined : true}
      defaultValue={texts.join(', ')}
      onChange={(event) =>
        set(
          event.target.value
            .split(',')
            .map((text) => text.trim())
            .filter(Boolean),
        )
      }
    />
  );
}
