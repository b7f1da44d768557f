// The values of a file as its fields take them: numbers with a decimal comma, days of other orders, yes and no, texts that
// an export guarded against formulas. A text that cannot be a value of its field is a problem in words. What a file does
// not say by itself, the person chooses in `Reading`; it is guessed from the first records.
import type { Field, FieldType } from '../../api/answers.ts';
import type { SourceRecord } from './import-source.ts';

export interface Reading {
  /** Numbers are written 1.234,5. */
  isCommaDecimal: boolean;
  /** Days with slashes are written day, month, year. */
  isDayFirst: boolean;
}

export type Converted = { value: unknown } | { problem: string };

/** As the export of the API writes texts that a spreadsheet would run. */
const GUARDED = /^'+([=+\-@\t\r\n＝＋－＠]|$)/;
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;
const SLASHES = /^(\d{1,2})\/(\d{1,2})\/(\d{4})$/;
const DOTS = /^(\d{1,2})\.(\d{1,2})\.(\d{4})$/;
const ISO = /^(\d{4})-(\d{1,2})-(\d{1,2})$/;
const TIME = /^(.+?)(?:[T ]+(\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)\s*(Z|[+-]\d{2}:?\d{2})?)?$/i;
const NUMERIC: readonly FieldType[] = ['integer', 'number', 'decimal'];

/** The value of a text of the file; null for an empty one, which is no value. */
export function convert(field: Field, text: string, reading: Reading): Converted {
  if (text.trim() === '') return { value: null };
  switch (field.type) {
    case 'integer':
    case 'number':
    case 'decimal':
      return number(field, text, reading);
    case 'boolean':
      return boolean(text.trim());
    case 'date':
      return dayOf(text.trim(), reading) ?? { problem: 'is not a date like 2026-11-22' };
    case 'datetime':
      return timeOf(text.trim(), reading) ?? { problem: 'is not a time like 2026-11-22 14:30' };
    case 'select':
      return option(field, guarded(text));
    case 'multiselect':
    case 'relations':
      return list(field, text.trim());
    case 'json':
      return json(text);
    case 'relation':
    case 'uuid':
      return UUID.test(text.trim()) ? { value: text.trim() } : { problem: 'is not an id' };
    default:
      return { value: guarded(text) };
  }
}

const guarded = (text: string): string => (GUARDED.test(text) ? text.slice(1) : text);

/** The digits without grouping, with a point. */
function plainNumber(text: string, { isCommaDecimal }: Reading): string | null {
  const bare = text.replace(/[\s'’_](?=\d{3}(?!\d))/g, '');
  const [group, point] = isCommaDecimal ? ['.', ','] : [',', '.'];
  const pattern = isCommaDecimal
    ? /^[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?$/
    : /^[+-]?(\d{1,3}(,\d{3})+|\d*)(\.\d+)?(e[+-]?\d+)?$/i;
  if (!pattern.test(bare) || !/\d/.test(bare)) return null;
  return bare.replaceAll(group as string, '').replace(point as string, '.');
}

function number({ type, min, max }: Field, text: string, reading: Reading): Converted {
  const plain = plainNumber(text.trim(), reading);
  const value = Number(plain);
  if (plain === null || !Number.isFinite(value)) return { problem: 'is not a number' };
  if (type === 'integer' && !Number.isSafeInteger(value)) return { problem: 'is not a whole number' };
  if (min != null && value < Number(min)) return { problem: `is less than ${min}` };
  if (max != null && value > Number(max)) return { problem: `is more than ${max}` };
  return { value: type === 'decimal' && /^[+-]?\d+(\.\d+)?$/.test(plain) ? plain : value };
}

function boolean(text: string): Converted {
  if (/^(true|yes|y|1|on|x)$/i.test(text)) return { value: true };
  return /^(false|no|n|0|off)$/i.test(text) ? { value: false } : { problem: 'is neither yes nor no' };
}

function dayOf(text: string, { isDayFirst }: Reading): { value: string } | null {
  const [, a, b, c] = ISO.exec(text) ?? [];
  const [, first, second, late] = SLASHES.exec(text) ?? [];
  const [, day, month, year] = DOTS.exec(text) ?? [];
  if (a !== undefined) return day3(a, b, c);
  if (late !== undefined) return isDayFirst ? day3(late, second, first) : day3(late, first, second);
  return year === undefined ? null : day3(year, month, day);
}

/** Null for a day that is in no calendar. */
function day3(year: string, month = '', day = ''): { value: string } | null {
  const value = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`;
  const date = new Date(`${value}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(value) ? { value } : null;
}

/** A time without a zone is one of the person's own. */
function timeOf(text: string, reading: Reading): { value: string } | null {
  const [, days = '', hours = '00:00', zone = ''] = TIME.exec(text) ?? [];
  const day = dayOf(days, reading);
  if (day === null) return null;
  const offset = zone.toUpperCase().replace(/^([+-]\d{2})(\d{2})$/, '$1:$2');
  const date = new Date(`${day.value}T${hours.replace(/^(\d):/, '0$1:')}${offset}`);
  return Number.isNaN(date.getTime()) ? null : { value: date.toISOString() };
}

function option({ options }: Field, text: string): Converted {
  const all = options ?? [];
  if (all.includes(text)) return { value: text };
  const plain = text.trim().toLowerCase();
  const alike = all.filter((one) => one.toLowerCase() === plain);
  return alike.length === 1 ? { value: alike[0] } : { problem: 'is not one of the options' };
}

function list(field: Field, text: string): Converted {
  let items: unknown = text.split(/[,;|]/).map((one) => one.trim());
  if (text.startsWith('[')) {
    const parsed = json(text);
    if ('problem' in parsed) return { problem: 'is not a list' };
    items = parsed.value;
  }
  if (!Array.isArray(items)) return { problem: 'is not a list' };
  const given = items.map(String).filter((one) => one !== '');
  if (field.type === 'relations') {
    return given.every((one) => UUID.test(one)) ? { value: given } : { problem: 'is not a list of ids' };
  }
  const values: unknown[] = [];
  for (const one of given) {
    const found = option(field, one);
    if ('problem' in found) return { problem: `holds ${one}, which is not one of the options` };
    values.push(found.value);
  }
  return { value: values };
}

function json(text: string): Converted {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { problem: 'is not JSON' };
  }
}

/** How the texts of some columns seem to be written. */
export function guessReading(samples: readonly SourceRecord[], separator: string): Reading {
  const texts = samples.flatMap(({ values }) => Object.values(values).filter((one) => typeof one === 'string'));
  const isComma = texts.some((text) => /^[+-]?(\d{1,3}(\.\d{3})+|\d+),(\d{1,2}|\d{4,})$/.test(text.trim()));
  const isPoint = texts.some((text) => /^[+-]?(\d{1,3}(,\d{3})+|\d+)\.(\d{1,2}|\d{4,})$/.test(text.trim()));
  const parts = texts.map((text) => SLASHES.exec(text.trim())).filter((match) => match !== null);
  const isDayFirst = parts.some(([, first]) => Number(first) > 12);
  const isMonthFirst = parts.some(([, , second]) => Number(second) > 12);
  return {
    isCommaDecimal: isComma && (!isPoint || separator === ';'),
    isDayFirst: isDayFirst || (!isMonthFirst && navigator.language !== 'en-US'),
  };
}

/** Whether the choice of `Reading` makes a difference to some value of a field. */
export function needsChoice(type: FieldType, texts: readonly string[]): { numbers: boolean; days: boolean } {
  const has = (pattern: RegExp): boolean => texts.some((text) => pattern.test(text.trim()));
  return {
    numbers: NUMERIC.includes(type) && has(/[.,]/),
    days: ['date', 'datetime'].includes(type) && has(/^\d{1,2}\/\d{1,2}\/\d{4}/),
  };
}

/** The type of a new field that takes all of some texts. A number that begins with 0, such as a postal code, is a text. */
export function guessType(texts: readonly string[], reading: Reading): FieldType {
  const given = texts.map((text) => text.trim()).filter((text) => text !== '');
  const fits = (type: FieldType): boolean =>
    given.every((text) => 'value' in convert({ type } as Field, text, reading));
  if (given.length === 0 || given.some((text) => /^(\+|-?0\d)\d*$/.test(text))) return 'text';
  if (given.every((text) => /^(true|false|yes|no)$/i.test(text))) return 'boolean';
  for (const type of ['integer', 'decimal', 'date', 'datetime'] as const) if (fits(type)) return type;
  if (given.every((text) => /^[^\s@]+@[^\s@]+\.[^\s@]{2,}$/.test(text))) return 'email';
  return given.every((text) => /^https?:\/\/\S+$/i.test(text)) ? 'url' : 'text';
}
