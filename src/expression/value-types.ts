// The value types of the expression language: the literals and operators of each, how its values compare in memory, and
// the SQL that compares them in the same way. Values have their stored form: numbers are doubles, decimals are strings
// of any precision, ids are lower case, dates and times sort as text. Contract: decisions#expressions.

import { isUuid } from '../runtime/ids.ts';
import { type Sql, sql } from '../runtime/sql.ts';
import { textProblem } from '../runtime/text.ts';
import { compareDecimal, compareText } from './compare.ts';
import { parseDate, parseDateTime } from './date-time.ts';

/** A value in stored form: a number for NUMBER, a boolean for BOOLEAN, otherwise text. */
export type Value = string | number | boolean;

export type Operator =
  | '='
  | '!='
  | '<'
  | '>'
  | '<='
  | '>='
  | 'contains'
  | 'startsWith'
  | 'endsWith'
  | 'in'
  | 'null'
  | 'not null';

const NULLS: readonly Operator[] = ['null', 'not null'];
const EQUALITY: readonly Operator[] = ['=', '!=', 'in', ...NULLS];
const ORDER: readonly Operator[] = [...EQUALITY, '<', '>', '<=', '>='];
const STRING: readonly Operator[] = [...ORDER, 'contains', 'startsWith', 'endsWith'];
const LIST: readonly Operator[] = ['contains', ...NULLS];

export interface ValueType {
  operators: readonly Operator[];
  /** The literals that `parse` accepts, for error messages. */
  expected: string;
  /** A literal in stored form, or undefined. */
  parse(literal: string): Value | undefined;
  /** Orders a stored value and a literal: negative, zero or positive. */
  compare(stored: unknown, value: Value): number;
  /** The stored value in SQL. An index on the same expression serves comparisons. */
  column(data: Sql, slot: Sql): Sql;
  /** The type of `column`, to which bound values are cast. Text is compared by code point, collation "C". */
  sqlType: 'text' | 'numeric' | 'boolean' | 'uuid' | 'timestamptz' | 'jsonb';
}

const asText = (data: Sql, slot: Sql): Sql => sql`(${data}->>${slot})`;
const asJson = (data: Sql, slot: Sql): Sql => sql`(${data}->${slot})`;
const byCodePoint = (stored: unknown, value: Value): number => compareText(String(stored), String(value));
const byNumber = (stored: unknown, value: Value): number => Number(stored) - Number(value);

export const TEXT: ValueType = {
  operators: STRING,
  expected: 'text that can be stored',
  parse: (literal) => (textProblem(literal) === undefined ? literal : undefined),
  compare: byCodePoint,
  column: asText,
  sqlType: 'text',
};

export const UUID: ValueType = {
  ...TEXT,
  operators: ORDER,
  expected: 'a UUID',
  parse: (literal) => (isUuid(literal) ? literal.toLowerCase() : undefined),
};

export const DATE: ValueType = { ...TEXT, operators: ORDER, expected: 'a date (YYYY-MM-DD)', parse: parseDate };

export const DATE_TIME: ValueType = {
  ...TEXT,
  operators: ORDER,
  expected: 'a date and time (ISO 8601 with an offset)',
  parse: parseDateTime,
};

export const NUMBER: ValueType = {
  operators: ORDER,
  expected: 'a number',
  parse: parseNumber,
  compare: byNumber,
  column: (data, slot) => sql`(${data}->${slot})::numeric`,
  sqlType: 'numeric',
};

export const DECIMAL: ValueType = {
  operators: ORDER,
  expected: 'a decimal number',
  parse: parseDecimal,
  compare: (stored, value) => compareDecimal(String(stored), String(value)),
  column: (data, slot) => sql`(${data}->>${slot})::numeric`,
  sqlType: 'numeric',
};

export const BOOLEAN: ValueType = {
  operators: EQUALITY,
  expected: 'true or false',
  parse: parseBoolean,
  compare: byNumber,
  column: (data, slot) => sql`(${data}->${slot})::boolean`,
  sqlType: 'boolean',
};

/** A list is not ordered; `contains` tests for a member. */
export const TEXT_LIST: ValueType = { ...TEXT, operators: LIST, column: asJson, sqlType: 'jsonb' };
export const UUID_LIST: ValueType = { ...UUID, operators: LIST, column: asJson, sqlType: 'jsonb' };

export const JSON_VALUE: ValueType = {
  ...TEXT_LIST,
  operators: NULLS,
  expected: 'null',
  parse: () => undefined,
};

/** System ids and timestamps, which have columns of their own. */
export const UUID_COLUMN: ValueType = { ...UUID, sqlType: 'uuid' };
export const TIMESTAMP_COLUMN: ValueType = { ...DATE_TIME, sqlType: 'timestamptz' };

/** Whether values have an order: records can be sorted and grouped by them. Lists and JSON have none. */
export function isOrdered({ sqlType }: ValueType): boolean {
  return sqlType !== 'jsonb';
}

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,4})?$/;
/** The largest power of ten in a decimal literal. */
const DECIMAL_MAX_EXPONENT = 1_000;

function parseNumber(literal: string): number | undefined {
  const value = JSON_NUMBER.test(literal) ? Number(literal) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}

function parseBoolean(literal: string): boolean | undefined {
  const lower = literal.toLowerCase();
  return lower === 'true' ? true : lower === 'false' ? false : undefined;
}

/** A plain decimal without exponent. Shifts the digits as text, so the value stays exact. */
function parseDecimal(literal: string): string | undefined {
  if (!JSON_NUMBER.test(literal)) return undefined;
  const [mantissa = '', power = '0'] = literal.toLowerCase().split('e');
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
