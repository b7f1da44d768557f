// What may come next in a condition that is being typed: a field, an operator that its type has, or a value that is known.
// Only what stands before the caret counts; after a complete comparison nothing is offered.
import type { Operator } from '../../src/expression/value-types.ts';
import { type Choice, operatorsOf, operatorWord, sayVariable } from './words.ts';

export interface Completion {
  /** The part of the text that an option replaces. */
  from: number;
  to: number;
  options: readonly { text: string; detail: string }[];
}

const MOST_OPTIONS = 8;
const WORD = /[$\w.-]*$/;
/** Where a comparison begins. */
const BEGIN = /(^|\(|\b(?:and|or|not))\s*$/i;
const OPERATORS = ['!=', '>=', '<=', '=', '>', '<', 'contains', 'startsWith', 'endsWith', 'in'];
const COMPARED = new RegExp(`([$\\w.]+)\\s*(${OPERATORS.join('|')})\\s*$`, 'i');
const LISTED = /([$\w.]+)\s+in\s*\([^()]*$/i;
const NAMED = /(?:^|[\s(])([$\w.]+)\s+$/;

export function completionAt(text: string, caret: number, choices: readonly Choice[]): Completion | null {
  const head = text.slice(0, caret);
  const word = WORD.exec(head)?.[0] ?? '';
  const before = head.slice(0, head.length - word.length);
  if (isQuoted(before)) return null;
  const fits = offersAfter(before, choices).filter(
    (option) => `${option.text} ${option.detail}`.toLowerCase().includes(word.toLowerCase()) && option.text !== word,
  );
  // What begins with the typed word comes first.
  const first = (option: { text: string }): number =>
    option.text.toLowerCase().startsWith(word.toLowerCase()) ? 0 : 1;
  const options = fits.toSorted((a, b) => first(a) - first(b)).slice(0, MOST_OPTIONS);
  return options.length === 0 ? null : { from: before.length, to: caret, options };
}

function isQuoted(before: string): boolean {
  const plain = before.replace(/\\./g, '');
  return ['"', "'"].some((quote) => (plain.split(quote).length - 1) % 2 === 1);
}

function offersAfter(before: string, choices: readonly Choice[]): { text: string; detail: string }[] {
  const listed = LISTED.exec(before)?.[1];
  const compared = COMPARED.exec(before)?.[1];
  const target = choices.find(({ path }) => path === (listed ?? compared));
  if (target !== undefined) return valuesOf(target);
  if (listed !== undefined || compared !== undefined) return [];
  if (BEGIN.test(before))
    return choices.map(({ path, label }) => ({ text: path, detail: label === path ? '' : label }));
  const named = choices.find(({ path }) => path === NAMED.exec(before)?.[1]);
  return named === undefined ? [] : operatorsOf(named.field.type).map((one) => operatorOption(one, named));
}

function operatorOption(operator: Operator, { field }: Choice): { text: string; detail: string } {
  const text = operator === 'null' ? 'is null' : operator === 'not null' ? 'is not null' : operator;
  return { text, detail: operatorWord(operator, field.type) };
}

function valuesOf({ field: { type, options } }: Choice): { text: string; detail: string }[] {
  const variables: Partial<Record<typeof type, readonly string[]>> = {
    text: ['$currentUser.email', '$currentUser.role'],
    email: ['$currentUser.email'],
    uuid: ['$currentUser.id'],
    relation: ['$currentUser.id'],
    date: ['$now', '$now-7d'],
    datetime: ['$now', '$now-7d'],
  };
  const known = type === 'boolean' ? ['true', 'false'] : (options ?? []).map(quoted);
  return [
    ...known.map((text) => ({ text, detail: '' })),
    ...(variables[type] ?? []).map((text) => ({ text, detail: sayVariable(text) })),
  ];
}

/** As printed conditions write a text. */
const quoted = (text: string): string => `"${text.replace(/[\\"]/g, '\\$&')}"`;
