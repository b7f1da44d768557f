// One parser per form of value: returns the stored form of a JSON value or CSV cell, or a problem if it breaks
// the limits of the field's attributes. Lengths are checked before anything whose time grows faster than the length.
// Contract: decisions#fields, neighbours#fair-shares.
import { compareDecimal } from '../expression/compare.ts';
import { parseDate } from '../expression/date-time.ts';
import { DECIMAL } from '../expression/value-types.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { codePoints, isLongerThan, textProblem } from '../runtime/text.ts';
import type { Field } from './field.ts';
import { mismatch } from './patterns.ts';

export type Parsed = { value: unknown } | { problem: string };

const DECIMAL_TEXT = /^[+-]?\d{1,1000}(\.\d{1,1000})?$/;
const DATE_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;
const EMAIL = /^[^\s@"(),:;<>[\\\]]{1,64}@[^\s@"(),:;<>[\\\]]{1,253}\.[^\s@"(),:;<>[\\\].]{2,63}$/;
/** Local part of 64 characters, an @, 253 characters, a dot and 63 characters, as UTF-16 units. */
const EMAIL_MAX = 2 * (64 + 1 + 253 + 1 + 63);
/** The most values of a list of relations or of a multiselect. */
export const ITEMS_MAX = 1_000;
/** How many options a message names, and how many characters together; the first option is always named. */
const NAMED_MAX = 20;
const NAMED_CHARACTERS = 500;

export function text(input: unknown, field: Field): Parsed {
  if (typeof input !== 'string') return { problem: 'must be a string' };
  const problem = textProblem(input) ?? lengthProblem(input, field);
  return problem === undefined ? { value: input } : { problem };
}

export function email(input: unknown, field: Field): Parsed {
  const parsed = text(input, field);
  if ('problem' in parsed) return parsed;
  const value = parsed.value as string;
  const isEmail = value.length <= EMAIL_MAX && EMAIL.test(value);
  return isEmail ? parsed : { problem: 'must be an e-mail address' };
}

export function url(input: unknown, field: Field): Parsed {
  const parsed = text(input, field);
  if ('problem' in parsed) return parsed;
  const value = parsed.value as string;
  // The time to parse a host name grows with the square of its length.
  if (value.length > LIMITS.urlMax) return { problem: `must have at most ${LIMITS.urlMax} characters` };
  return isWebUrl(value) ? parsed : { problem: 'must be an http or https URL' };
}

function isWebUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && URL.canParse(value) && !/\s/.test(value);
}

function lengthProblem(value: string, field: Field): string | undefined {
  const { minLength, maxLength } = field;
  if (minLength !== undefined && isShorterThan(value, minLength)) return `must have at least ${minLength} characters`;
  if (maxLength !== undefined && isLongerThan(value, maxLength)) return `must have at most ${maxLength} characters`;
  return mismatch(field, value);
}

function isShorterThan(value: string, characters: number): boolean {
  return value.length < characters || (value.length < 2 * characters && codePoints(value) < characters);
}

export function uuid(input: unknown): Parsed {
  return typeof input === 'string' && isUuid(input) ? { value: input.toLowerCase() } : { problem: 'must be a UUID' };
}

export function integer(input: unknown, field: Field): Parsed {
  return Number.isSafeInteger(input) ? number(input, field) : { problem: 'must be a whole number of at most 2^53 - 1' };
}

export function number(input: unknown, { min, max }: Field): Parsed {
  if (typeof input !== 'number' || !Number.isFinite(input)) return { problem: 'must be a number' };
  if (min !== undefined && input < Number(min)) return { problem: `must be at least ${min}` };
  if (max !== undefined && input > Number(max)) return { problem: `must be at most ${max}` };
  // JSON and Postgres have no negative zero.
  return { value: input === 0 ? 0 : input };
}

export function decimal(input: unknown, { min, max }: Field): Parsed {
  const given = typeof input === 'number' && Number.isFinite(input) ? String(input) : input;
  if (!isDecimal(given)) return { problem: 'must be a decimal number, as a string' };
  const value = canonicalDecimal(given);
  if (min !== undefined && compareLimits(value, min) < 0) return { problem: `must be at least ${min}` };
  if (max !== undefined && compareLimits(value, max) > 0) return { problem: `must be at most ${max}` };
  return { value };
}

export function isDecimal(given: unknown): given is string {
  return typeof given === 'string' && DECIMAL_TEXT.test(given);
}

/** The decimal without plus sign and leading zeros; the scale is kept. */
function canonicalDecimal(given: string): string {
  const [, sign, whole = '', fraction = ''] = /^([+-]?)0*(\d+)(\.\d+)?$/.exec(given) ?? [];
  const digits = whole + fraction;
  return sign === '-' && /[1-9]/.test(digits) ? `-${digits}` : digits;
}

/** Exact comparison of numbers and decimal texts: negative, zero or positive. */
export function compareLimits(a: number | string, b: number | string): number {
  return compareDecimal(exact(a), exact(b));
}

/**
 * Digits without an exponent: JavaScript writes large and small numbers with one, which isDecimal rejects and DECIMAL parses.
 */
function exact(limit: number | string): string {
  const written = String(limit);
  return isDecimal(written) ? canonicalDecimal(written) : String(DECIMAL.parse(written));
}

export function boolean(input: unknown): Parsed {
  return typeof input === 'boolean' ? { value: input } : { problem: 'must be true or false' };
}

export function date(input: unknown): Parsed {
  const isValid = typeof input === 'string' && parseDate(input) !== undefined;
  return isValid ? { value: input } : { problem: 'must be a date, YYYY-MM-DD' };
}

export function dateTime(input: unknown): Parsed {
  const problem = 'must be an ISO 8601 timestamp with a zone, such as 2026-01-31T12:00:00.000Z';
  if (typeof input !== 'string' || !DATE_TIME.test(input) || parseDate(input.slice(0, 10)) === undefined) {
    return { problem };
  }
  const time = new Date(input);
  if (Number.isNaN(time.getTime()) || time.getUTCFullYear() < 1 || time.getUTCFullYear() > 9999) return { problem };
  return { value: time.toISOString() };
}

export function select(input: unknown, { options = [] }: Field): Parsed {
  const isOption = typeof input === 'string' && options.includes(input);
  return isOption ? { value: input } : { problem: `must be one of: ${named(options)}` };
}

export function multiselect(input: unknown, { options = [] }: Field): Parsed {
  if (!isTextList(input)) return { problem: 'must be a list of strings' };
  const known = new Set(options);
  if (!input.every((item) => known.has(item))) return { problem: `must hold only: ${named(options)}` };
  return { value: [...new Set(input)] };
}

/** The options for a message: the first ones, and how many more there are. */
function named(options: readonly string[]): string {
  let count = 0;
  for (let room = NAMED_CHARACTERS; count < Math.min(options.length, NAMED_MAX); count++) {
    room -= (options[count] as string).length;
    if (room < 0 && count > 0) break;
  }
  const shown = options.slice(0, count).join(', ');
  return options.length > count ? `${shown} and ${options.length - count} more` : shown;
}

export function uuidList(input: unknown): Parsed {
  if (!isTextList(input) || !input.every(isUuid)) return { problem: 'must be a list of UUIDs' };
  return { value: [...new Set(input.map((id) => id.toLowerCase()))] };
}

function isTextList(input: unknown): input is string[] {
  return Array.isArray(input) && input.length <= ITEMS_MAX && input.every((item) => typeof item === 'string');
}

export function json(input: unknown): Parsed {
  return { value: input };
}
