// Which values of one type are values of another, and how: the whole table, and the one reader that
// a retyped field's values pass. Nothing is rounded, cut or guessed: what is not the very same value
// in the other form is refused. Pure. Contract: decisions#field-changes.
import type { FieldType } from '../expression/ast.ts';
import { LIMITS } from '../limits.ts';
import { type Field, TEXTUAL } from './field.ts';
import { characters, compareDecimals, isDecimal, type Reading, readValue } from './value-types.ts';

/** Reads a value that is not null, as it is stored: readValue, and what an index can hold. */
export function readKept(field: Field, input: unknown): Reading {
  if (field.isClosed === true) return { problem: 'takes no values any more' };
  const reading = readValue(field, input);
  if ('problem' in reading || !(field.unique || field.indexed)) return reading;
  return isTooLongForIndex(field, reading.value)
    ? { problem: `must have at most ${LIMITS.indexedTextMax} characters, since the field is indexed` }
    : reading;
}

export function isTooLongForIndex({ type }: Pick<Field, 'type'>, value: unknown): boolean {
  return TEXTUAL.has(type) && characters(value as string) > LIMITS.indexedTextMax;
}

/** A stored value of `from` in the stored form of `to`, which must accept it. */
export function convertValue(from: Field, to: Field, value: unknown): Reading {
  const converted = converter(from, to)(value);
  return converted === undefined ? { problem: `cannot be converted to ${to.type}` } : readKept(to, converted);
}

/** Whether both types keep their values, and index them, in one and the same form. */
export function isSameForm(from: Field, to: Field): boolean {
  if (from.type === to.type) return from.targetId === to.targetId;
  return FORMS.some((form) => form.has(from.type) && form.has(to.type));
}

const FORMS: readonly ReadonlySet<FieldType>[] = [new Set(['text', 'email', 'url']), new Set(['integer', 'number'])];

/** The value for the other type's reader; undefined where there is none. */
type Convert = (value: unknown) => unknown;

const AS_IT_IS: Convert = (value) => value;
const NEVER: Convert = () => undefined;
const WRAPPED: Convert = (value) => [value];
const UNWRAPPED: Convert = (value) => {
  const items = value as unknown[];
  return items.length === 1 ? items[0] : undefined;
};

const TEXTS: ReadonlySet<FieldType> = new Set(['text', 'email', 'url', 'uuid', 'date', 'datetime', 'select']);
const NUMBERS: ReadonlySet<FieldType> = new Set(['integer', 'number', 'decimal']);
const RELATIONS: ReadonlySet<FieldType> = new Set(['relation', 'relations']);

function converter(from: Field, to: Field): Convert {
  if (from.targetId !== null && to.targetId !== null && from.targetId !== to.targetId) return NEVER;
  if (from.type === to.type || to.type === 'json') return AS_IT_IS;
  if (from.type === 'json') return to.targetId === null ? AS_IT_IS : NEVER;
  if (RELATIONS.has(to.type)) return between(from, to, 'relation', 'relations');
  if (from.type === 'relation') return to.type === 'text' || to.type === 'uuid' ? AS_IT_IS : NEVER;
  if (to.type === 'multiselect') return TEXTS.has(from.type) ? WRAPPED : NEVER;
  if (from.type === 'multiselect') return to.type === 'select' || to.type === 'text' ? UNWRAPPED : NEVER;
  if (to.type === 'date' && from.type === 'datetime') return dayOf;
  if (to.type === 'datetime' && from.type === 'date') return (value) => `${value}T00:00:00.000Z`;
  if (to.type === 'boolean') return toBoolean;
  if (NUMBERS.has(to.type)) return from.type === 'boolean' ? Number : (value) => toNumber(value, to.type);
  return TEXTS.has(from.type) ? AS_IT_IS : toText;
}

function between(from: Field, to: Field, one: FieldType, several: FieldType): Convert {
  if (from.type === one && to.type === several) return WRAPPED;
  return from.type === several && to.type === one ? UNWRAPPED : NEVER;
}

function toText(value: unknown): unknown {
  return Array.isArray(value) ? undefined : String(value);
}

/** Midnight UTC only: another time of day would be lost. */
function dayOf(value: unknown): unknown {
  const [day, time] = (value as string).split('T');
  return time === '00:00:00.000Z' ? day : undefined;
}

function toBoolean(value: unknown): unknown {
  if (value === 'true' || value === 1 || value === '1') return true;
  return value === 'false' || value === 0 || value === '0' ? false : undefined;
}

/** Digits as a person writes a number: no leading zeros or plus sign, which a postcode or telephone number has. */
const PLAIN = /^-?(0|[1-9]\d*)(\.\d+)?$/;

function toNumber(value: unknown, type: FieldType): unknown {
  const digits = String(value);
  if (!PLAIN.test(digits)) return typeof value === 'number' && type !== 'decimal' ? value : undefined;
  if (type === 'decimal') return digits;
  const number = Number(digits);
  const kept = String(number);
  return isDecimal(kept) && isDecimal(digits) && compareDecimals(kept, digits) === 0 ? number : undefined;
}
