// The words of conditions: operators by the type of a field, what a condition says as a chip, the fields that one may
// choose, and the term that a choice begins with.
import { SYSTEM_FIELDS } from '../../src/expression/ast.ts';
import type { Operator } from '../../src/expression/value-types.ts';
import type { Entity, Field, FieldType } from '../api/answers.ts';
import { decimal, time } from '../parts/value.ts';
import { targetOf, VALUE_TYPES } from './names.ts';
import { isGroup, type Operand, type Term, type Tree } from './tree.ts';

const WORDS: Readonly<Record<Operator, string>> = {
  '=': 'is',
  '!=': 'is not',
  '>': 'is more than',
  '>=': 'is at least',
  '<': 'is less than',
  '<=': 'is at most',
  contains: 'contains',
  startsWith: 'starts with',
  endsWith: 'ends with',
  in: 'is one of',
  null: 'is empty',
  'not null': 'is not empty',
};
const TIME_WORDS: Partial<Record<Operator, string>> = {
  '>': 'is after',
  '>=': 'is from',
  '<': 'is before',
  '<=': 'is until',
};
const TIMES: readonly FieldType[] = ['date', 'datetime'];
/** Operators in the order of use; those that a type lacks are left out. */
const ORDER: readonly Operator[] = [
  '=',
  '!=',
  'contains',
  'startsWith',
  'endsWith',
  '>',
  '>=',
  '<',
  '<=',
  'in',
  'null',
  'not null',
];
/** Order says nothing about them. */
const CHOICES: readonly FieldType[] = ['select', 'relation', 'uuid', 'boolean'];
const BARE: readonly FieldType[] = ['integer', 'number', 'decimal', 'boolean'];
const UNITS: Readonly<Record<string, string>> = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week' };

export interface Choice {
  path: string;
  label: string;
  group: string;
  field: Pick<Field, 'type' | 'options' | 'entity'>;
}

/** Everything that a condition may begin with: fields, system fields, fields one relation away; in rules the old values. */
export function choicesOf(entity: Entity, entities: readonly Entity[], allowOld = false): Choice[] {
  const own = entity.fields.map((field) => ({
    path: field.key,
    label: field.label ?? field.key,
    group: 'Fields',
    field,
  }));
  const system = Object.values(SYSTEM_FIELDS)
    .filter(({ key }) => key !== 'entityId')
    .map(({ key, type }) => ({ path: key, label: key, group: 'System', field: { type: type as FieldType } }));
  const old = !allowOld
    ? []
    : own.flatMap(({ path, label, field }) => [
        { path: `$changed.${path}`, label: `${label} changes`, group: 'Change', field: { type: 'boolean' as const } },
        { path: `$old.${path}`, label: `${label} before`, group: 'Change', field },
      ]);
  const related = entity.fields.flatMap((relation) => {
    const target = targetOf(entity, entities, relation.key);
    return (target?.fields ?? []).map((field) => ({
      path: `${relation.key}.${field.key}`,
      label: `${relation.label ?? relation.key} → ${field.label ?? field.key}`,
      group: relation.label ?? relation.key,
      field,
    }));
  });
  return [...own, ...old, ...related, ...system];
}

export function operatorsOf(type: FieldType): Operator[] {
  const { operators } = VALUE_TYPES[type];
  const isChoice = CHOICES.includes(type);
  return ORDER.filter(
    (operator) =>
      operators.includes(operator) &&
      !(isChoice && /[<>]|With|contains/.test(operator)) &&
      !(type === 'boolean' && operator === 'in'),
  );
}

export function operatorWord(operator: Operator, type: FieldType): string {
  return (TIMES.includes(type) ? TIME_WORDS[operator] : undefined) ?? WORDS[operator];
}

export function operandOf(type: FieldType, text: string): Operand {
  return { text, form: BARE.includes(type) ? 'bare' : 'quoted' };
}

/** The term that a field begins with, without a value yet unless there is a usual one. */
export function firstTerm({ path, field: { type, options } }: Choice): Term {
  const operator = operatorsOf(type)[0] ?? '=';
  const text = type === 'boolean' ? 'true' : type === 'select' ? (options?.[0] ?? '') : '';
  const hasNone = operator === 'null';
  return { kind: 'term', path, operator, operands: hasNone ? [] : [operandOf(type, text)] };
}

/** Why a term cannot be written yet; undefined when it can. */
export function missingIn({ operator, operands }: Term, type: FieldType): string | undefined {
  if (operator === 'null' || operator === 'not null') return undefined;
  if (operands.length === 0) return 'needs at least one value';
  const { parse, expected } = VALUE_TYPES[type];
  const wrong = operands.find(
    ({ text, form }) =>
      form !== 'variable' && (parse(text) === undefined || (text === '' && operator !== '=' && operator !== '!=')),
  );
  return wrong === undefined ? undefined : wrong.text === '' ? 'needs a value' : `needs ${expected}`;
}

/** A tree as a sentence: "amount is more than 1,000". */
export function sayTree(tree: Tree, choices: readonly Choice[]): string {
  if (tree.kind === 'not') return `not (${sayTree(tree.part, choices)})`;
  if (isGroup(tree)) {
    const parts = tree.parts.map((part) => (isGroup(part) ? `(${sayTree(part, choices)})` : sayTree(part, choices)));
    return parts.join(tree.kind === 'and' ? ' and ' : ' or ');
  }
  const choice = choices.find(({ path }) => path === tree.path);
  const type = choice?.field.type ?? 'text';
  const label = choice?.label ?? tree.path;
  if (tree.path.startsWith('$changed.') && tree.operator === '=' && tree.operands[0]?.text === 'true') return label;
  const values = tree.operands.map((operand) => sayOperand(operand, type)).join(', ');
  return [label, operatorWord(tree.operator, type), values].filter(Boolean).join(' ');
}

function sayOperand({ text, form }: Operand, type: FieldType): string {
  if (form === 'variable') return sayVariable(text);
  if (text === '') return '""';
  if (type === 'boolean') return text === 'true' ? 'yes' : 'no';
  if (type === 'datetime') return time(text);
  if (type === 'relation' || type === 'uuid') return text.slice(0, 8);
  return BARE.includes(type) ? decimal(text) : text;
}

/** "7 days ago", "me". */
export function sayVariable(text: string): string {
  const relative = /^\$now(?:([+-])(\d+)([smhdw]))?$/.exec(text);
  if (relative === null)
    return (
      { '$currentUser.email': 'my e-mail', '$currentUser.role': 'my role' }[text] ??
      (text === '$currentUser.kind' ? 'my kind' : 'me')
    );
  const [, sign, count, unit = 's'] = relative;
  if (count === undefined) return 'now';
  const span = `${count} ${UNITS[unit]}${Number(count) === 1 ? '' : 's'}`;
  return sign === '-' ? `${span} ago` : `${span} from now`;
}
