// What a field's type lets an expression say: the operators it takes, and the form of its values,
// which is the form that records store, so that both back ends compare like with like. Numbers are
// doubles, as stored; decimals are exact; an id is lower case; an unknown option is a fine value.
// Failures: undefined, and the caller says what would have fitted. Contract: decisions#expressions.

import type { FieldType, Operator, Value } from './ast.ts';
import { parseDate, parseDateTime } from './date-time.ts';

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,4})?$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** The largest power of ten that a decimal literal may be written with. */
const DECIMAL_MAX_EXPONENT = 1_000;

const NULLS: readonly Operator[] = ['null', 'not null'];
const EQUALITY: readonly Operator[] = ['=', '!=', 'in', ...NULLS];
const ORDER: readonly Operator[] = [...EQUALITY, '<', '>', '<=', '>='];
const TEXT: readonly Operator[] = [...ORDER, 'contains', 'startsWith', 'endsWith'];
const MEMBERS: readonly Operator[] = ['contains', ...NULLS];

interface Kind {
  operators: readonly Operator[];
  expected: string;
  read(text: string): Value | undefined;
}

const text: Kind = { operators: TEXT, expected: 'text that can be stored', read: storableText };
const number: Kind = { operators: ORDER, expected: 'a number', read: readNumber };
const id: Kind = { operators: ORDER, expected: 'a UUID', read: readUuid };

const KINDS: Readonly<Record<FieldType, Kind>> = {
  text,
  email: text,
  url: text,
  select: text,
  uuid: id,
  relation: id,
  integer: number,
  number,
  decimal: { operators: ORDER, expected: 'a decimal number', read: readDecimal },
  boolean: { operators: EQUALITY, expected: 'true or false', read: readBoolean },
  date: { operators: ORDER, expected: 'a date (YYYY-MM-DD)', read: parseDate },
  datetime: { operators: ORDER, expected: 'a date and time (ISO 8601 with an offset)', read: parseDateTime },
  multiselect: { ...text, operators: MEMBERS },
  relations: { ...id, operators: MEMBERS },
  json: { operators: NULLS, expected: 'null', read: () => undefined },
};

/** Whether fields of this type may be compared so. */
export function takesOperator(type: FieldType, operator: Operator): boolean {
  return KINDS[type].operators.includes(operator);
}

/** The text as a value of this type, in stored form; undefined when it does not fit. */
export function readValue(type: FieldType, text: string): Value | undefined {
  return KINDS[type].read(text);
}

/** What `readValue` would have taken, for an error message. */
export function expectedValue(type: FieldType): string {
  return KINDS[type].expected;
}

/** Postgres holds neither NUL nor half a surrogate pair. */
function storableText(written: string): string | undefined {
  return written.includes('\0') || !written.isWellFormed() ? undefined : written;
}

function readNumber(written: string): number | undefined {
  const value = JSON_NUMBER.test(written) ? Number(written) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}

function readUuid(written: string): string | undefined {
  return UUID.test(written) ? written.toLowerCase() : undefined;
}

function readBoolean(written: string): boolean | undefined {
  const lower = written.toLowerCase();
  return lower === 'true' ? true : lower === 'false' ? false : undefined;
}

/** A plain decimal without exponent: the digits are moved, never computed with. */
function readDecimal(written: string): string | undefined {
  if (!JSON_NUMBER.test(written)) return undefined;
  const [mantissa = '', power = '0'] = written.toLowerCase().split('e');
  const exponent = Number(power);
  if (Math.abs(exponent) > DECIMAL_MAX_EXPONENT) return undefined;
  const sign = mantissa.startsWith('-') ? '-' : '';
  const [whole = '', fraction = ''] = mantissa.slice(sign.length).split('.');
  const point = whole.length + exponent;
  const digits = (whole + fraction)
    .padEnd(point, '0')
    .padStart(whole.length + fraction.length - Math.min(point, 0), '0');
  const split = Math.max(point, 0);
  return `${sign}${digits.slice(0, split) || '0'}${split < digits.length ? `.${digits.slice(split)}` : ''}`;
}
