// Values of cells by the type of their field: as shown, as typed in an editor, and back. A text that cannot be a value of
// the type is a problem in words, which the service would also have found.
import type { Field } from '../api/answers.ts';
import { day, decimal, rounded, shown, time } from '../parts/value.ts';

export function cellText(field: Field, value: unknown): string {
  if (value === null || value === undefined) return '—';
  if (field.type === 'decimal' && typeof value === 'string') return decimal(value);
  if (field.type === 'number' && typeof value === 'number') return rounded(value);
  if (field.type === 'date' && typeof value === 'string') return day(value);
  if (field.type === 'datetime' && typeof value === 'string') return time(value);
  if (field.type === 'relation' && typeof value === 'string') return value.slice(0, 8);
  if (field.type === 'relations' && Array.isArray(value)) return value.map((id) => String(id).slice(0, 8)).join(', ');
  if (field.type === 'multiselect' && Array.isArray(value)) return value.length === 0 ? '—' : value.join(', ');
  return shown(value);
}

/** As stored, for the tooltip of a cell that shows less. */
export function exactText(field: Field, value: unknown): string {
  return field.type === 'number' && typeof value === 'number' ? shown(value) : cellText(field, value);
}

/** The text that an editor begins with. */
export function editText(field: Field, value: unknown): string {
  if (value === null || value === undefined) return '';
  if (field.type === 'json') return JSON.stringify(value, null, 2);
  if (field.type === 'datetime' && typeof value === 'string') return localTime(value);
  return Array.isArray(value) ? listText(value.map(String)) : String(value);
}

/** Names separated by commas; a JSON list when one of them has a comma itself. */
export function listText(names: readonly string[]): string {
  return names.some((name) => /[,[]/.test(name) || name !== name.trim()) ? JSON.stringify(names) : names.join(', ');
}

/** A time in the person's zone, as a field for times takes it; seconds and their fractions only where there are some. */
function localTime(value: string): string {
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return value;
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, -1);
  return local.replace(/\.000$/, '').replace(/(T\d\d:\d\d):00$/, '$1');
}

/** The text that is copied: as stored, so that nothing is changed on the way. */
export function copyText(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

export type Parsed = { value: unknown } | { problem: string };

/** The value of a typed text. An empty one is null, but for text fields, where it is the empty text. */
export function parseText(field: Field, typed: string): Parsed {
  const text = typed.trim();
  if (text === '' && field.type !== 'text') return { value: null };
  switch (field.type) {
    case 'integer':
    case 'number': {
      const value = Number(text.replace(/[,_ ](?=\d{3}\b)/g, ''));
      if (!Number.isFinite(value)) return { problem: 'is not a number' };
      if (field.type === 'integer' && !Number.isSafeInteger(value)) return { problem: 'is not a whole number' };
      return { value };
    }
    case 'decimal': {
      const plain = text.replace(/[,_ ](?=\d{3}\b)/g, '');
      return /^-?\d+(\.\d+)?$/.test(plain) ? { value: plain } : { problem: 'is not a decimal number' };
    }
    case 'boolean':
      if (/^(yes|true|1|on|x)$/i.test(text)) return { value: true };
      if (/^(no|false|0|off)$/i.test(text)) return { value: false };
      return { problem: 'is neither yes nor no' };
    case 'date':
      return dateOf(text);
    case 'datetime': {
      const date = new Date(text);
      return Number.isNaN(date.getTime()) ? { problem: 'is not a time' } : { value: date.toISOString() };
    }
    case 'multiselect':
    case 'relations':
      return listOf(text);
    case 'json':
      try {
        return { value: JSON.parse(typed) };
      } catch {
        return { problem: 'is not JSON' };
      }
    case 'text':
      return { value: typed };
    default:
      return { value: text };
  }
}

function listOf(text: string): Parsed {
  if (!text.startsWith('[')) {
    const names = text.split(',').map((one) => one.trim());
    return { value: names.filter(Boolean) };
  }
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { problem: 'is not a list' };
  }
}

const DAYS: Readonly<Record<string, number>> = { yesterday: -1, today: 0, tomorrow: 1 };

function dateOf(text: string): Parsed {
  const shift = DAYS[text.toLowerCase()];
  if (shift === undefined)
    return /^\d{4}-\d{2}-\d{2}$/.test(text) ? { value: text } : { problem: 'is not a date like 2026-11-22' };
  const day = new Date();
  day.setDate(day.getDate() + shift);
  const two = (number: number): string => String(number).padStart(2, '0');
  return { value: `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}` };
}
