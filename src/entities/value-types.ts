// One reader per field type: from what JSON or a CSV cell carries to the stored form, or why not.
// Stored forms: text as it is; numbers as JSON numbers; decimals, dates and times as canonical
// text; several values as an array. Contract: decisions#fields.
import { RE2JS } from 're2js';
import type { FieldType } from '../expression/ast.ts';
import { isUuid } from '../runtime/ids.ts';
import { textProblem } from '../runtime/text.ts';
import type { Field } from './field.ts';

/** The stored form, or a sentence that says what is wrong. */
export type Reading = { value: unknown } | { problem: string };

const DECIMAL = /^[+-]?\d{1,1000}(\.\d{1,1000})?$/;
const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const DATETIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;
const EMAIL = /^[^\s@"(),:;<>[\\\]]{1,64}@[^\s@"(),:;<>[\\\]]{1,253}\.[^\s@"(),:;<>[\\\].]{2,63}$/;
const VALUES_MAX = 1_000;

const READERS: Readonly<Record<FieldType, (input: unknown, field: Field) => Reading>> = {
  text: readText,
  email: (input, field) => text(input, field, (value) => EMAIL.test(value), 'must be an e-mail address'),
  url: (input, field) => text(input, field, isWebUrl, 'must be an http or https URL'),
  uuid: readUuid,
  relation: readUuid,
  integer: (input, field) =>
    readNumber(input, field, Number.isSafeInteger, 'must be a whole number of at most 2^53 - 1'),
  number: (input, field) => readNumber(input, field, Number.isFinite, 'must be a number'),
  decimal: readDecimal,
  boolean: (input) => (typeof input === 'boolean' ? { value: input } : { problem: 'must be true or false' }),
  date: (input) => (isDate(input) ? { value: input } : { problem: 'must be a date, YYYY-MM-DD' }),
  datetime: readDatetime,
  select: readSelect,
  multiselect: readMultiselect,
  json: (input) => ({ value: input }),
  relations: readRelations,
};

/** Reads a value that is not null. */
export function readValue(field: Field, input: unknown): Reading {
  return READERS[field.type](input, field);
}

function readText(input: unknown, field: Field): Reading {
  if (typeof input !== 'string') return { problem: 'must be a text' };
  const problem = textProblem(input) ?? lengthProblem(input, field);
  return problem === undefined ? { value: input } : { problem };
}

function text(input: unknown, field: Field, isFit: (value: string) => boolean, otherwise: string): Reading {
  const reading = readText(input, field);
  return 'value' in reading && !isFit(reading.value as string) ? { problem: otherwise } : reading;
}

function lengthProblem(value: string, field: Field): string | undefined {
  const { minLength, maxLength, pattern } = field;
  if (minLength !== undefined || maxLength !== undefined) {
    const length = characters(value);
    if (minLength !== undefined && length < minLength) return `must have at least ${minLength} characters`;
    if (maxLength !== undefined && length > maxLength) return `must have at most ${maxLength} characters`;
  }
  if (pattern !== undefined && !patternOf(pattern).matcher(value).find()) return `must match the pattern ${pattern}`;
  return undefined;
}

/** Unicode code points, as users and Postgres count them. */
export function characters(value: string): number {
  let count = 0;
  for (const _ of value) count += 1;
  return count;
}

/** Compiled patterns by source. RE2 takes linear time whatever the pattern, so none can stall the process. */
const patterns = new Map<string, RE2JS>();
const PATTERNS_CACHED = 10_000;

function patternOf(source: string): RE2JS {
  const known = patterns.get(source);
  if (known !== undefined) return known;
  const made = RE2JS.compile(source);
  if (patterns.size >= PATTERNS_CACHED) patterns.clear();
  patterns.set(source, made);
  return made;
}

/** Whether a text is a pattern that fields may carry (RE2 syntax). */
export function isPattern(source: string): boolean {
  try {
    patternOf(source);
    return true;
  } catch {
    return false;
  }
}

function isWebUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && URL.canParse(value) && !/\s/.test(value);
}

function readUuid(input: unknown): Reading {
  return typeof input === 'string' && isUuid(input) ? { value: input.toLowerCase() } : { problem: 'must be a UUID' };
}

function readNumber(input: unknown, field: Field, isFit: (value: number) => boolean, otherwise: string): Reading {
  if (typeof input !== 'number' || !isFit(input)) return { problem: otherwise };
  const { min, max } = field;
  if (min !== undefined && input < Number(min)) return { problem: `must be at least ${min}` };
  if (max !== undefined && input > Number(max)) return { problem: `must be at most ${max}` };
  // JSON and Postgres know no negative zero.
  return { value: input === 0 ? 0 : input };
}

function readDecimal(input: unknown, field: Field): Reading {
  const given = typeof input === 'number' && Number.isFinite(input) ? String(input) : input;
  if (typeof given !== 'string' || !DECIMAL.test(given)) return { problem: 'must be a decimal number, as a text' };
  const value = canonicalDecimal(given);
  const { min, max } = field;
  if (min !== undefined && compareDecimals(value, String(min)) < 0) return { problem: `must be at least ${min}` };
  if (max !== undefined && compareDecimals(value, String(max)) > 0) return { problem: `must be at most ${max}` };
  return { value };
}

/** Without a plus sign and leading zeros; the scale is kept, as written. */
function canonicalDecimal(given: string): string {
  const [, sign, whole = '', fraction = ''] = /^([+-]?)0*(\d+)(\.\d+)?$/.exec(given) ?? [];
  const digits = whole + fraction;
  return sign === '-' && /[1-9]/.test(digits) ? `-${digits}` : digits;
}

export function isDecimal(given: unknown): given is string {
  return typeof given === 'string' && DECIMAL.test(given);
}

/** Exact comparison of two decimal texts: negative, zero or positive. */
export function compareDecimals(a: string, b: string): number {
  const scale = Math.max(scaleOf(a), scaleOf(b));
  const difference = unscaled(a, scale) - unscaled(b, scale);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

function scaleOf(value: string): number {
  const dot = value.indexOf('.');
  return dot < 0 ? 0 : value.length - dot - 1;
}

function unscaled(value: string, scale: number): bigint {
  return BigInt(value.replace('.', '').replace('+', '') + '0'.repeat(scale - scaleOf(value)));
}

/** A real calendar date, years 0001 to 9999. */
function isDate(input: unknown): input is string {
  const [, year, month, day] = (typeof input === 'string' && DATE.exec(input)) || [];
  if (year === undefined || year === '0000') return false;
  const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(`${year}-${month}-${day}`);
}

function readDatetime(input: unknown): Reading {
  const problem = 'must be an ISO 8601 timestamp with a zone, such as 2026-01-31T12:00:00.000Z';
  if (typeof input !== 'string' || !DATETIME.test(input) || !isDate(input.slice(0, 10))) return { problem };
  const time = new Date(input);
  if (Number.isNaN(time.getTime()) || time.getUTCFullYear() < 1 || time.getUTCFullYear() > 9999) return { problem };
  return { value: time.toISOString() };
}

function readSelect(input: unknown, field: Field): Reading {
  if (typeof input === 'string' && field.options?.includes(input) === true) return { value: input };
  return { problem: `must be one of: ${(field.options ?? []).join(', ')}` };
}

function readMultiselect(input: unknown, field: Field): Reading {
  if (!isTextList(input)) return { problem: 'must be a list of texts' };
  const unknown = input.find((option) => field.options?.includes(option) !== true);
  if (unknown !== undefined) return { problem: `must hold only: ${(field.options ?? []).join(', ')}` };
  return { value: [...new Set(input)] };
}

function readRelations(input: unknown): Reading {
  if (!isTextList(input) || !input.every(isUuid)) return { problem: 'must be a list of UUIDs' };
  return { value: [...new Set(input.map((id) => id.toLowerCase()))] };
}

function isTextList(input: unknown): input is string[] {
  return Array.isArray(input) && input.length <= VALUES_MAX && input.every((item) => typeof item === 'string');
}
