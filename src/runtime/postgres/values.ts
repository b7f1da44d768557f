// Conversion between JavaScript values and the Postgres text format.
// int8 -> number, numeric -> string, date and timestamp -> text as stored, timestamptz -> ISO 8601 UTC with
// exactly three decimals, json and jsonb -> parsed, arrays -> arrays of these.
// Sending: arrays become array literals; strings are sent unchanged, also where the SQL expects jsonb.

import { arrayLiteral } from '../array-literal.ts';

const INFINITY = /^-?infinity$/;

/** `2026-01-02 03:04:05.678901+00` as `2026-01-02T03:04:05.678Z`; further decimals are cut off. */
export function isoTimestamp(text: string): string {
  const end = text.length - 3;
  if (text.charCodeAt(4) !== 45 || !text.endsWith('+00')) return isoTimestampSlow(text);
  const seconds = `${text.slice(0, 10)}T${text.slice(11, 19)}`;
  if (end === 19) return `${seconds}.000Z`;
  return `${seconds}.${end >= 23 ? text.slice(20, 23) : text.slice(20, end).padEnd(3, '0')}Z`;
}

function isoTimestampSlow(text: string): string {
  if (INFINITY.test(text)) return text;
  const time = new Date(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
  return Number.isNaN(time.getTime()) ? text : time.toISOString();
}

/** Parses a Postgres array literal, which may be nested, with `parse` for each item except null. */
export function parseArray(text: string, parse: (item: string) => unknown): unknown[] {
  let at = text.indexOf('{') + 1;
  const quoted = (): string => {
    let item = '';
    for (at++; text[at] !== '"'; at++) {
      if (text[at] === '\\') at++;
      item += text[at];
    }
    at++;
    return item;
  };
  const bare = (): string => {
    const start = at;
    while (text[at] !== ',' && text[at] !== '}') at++;
    return text.slice(start, at);
  };
  const list = (): unknown[] => {
    const items: unknown[] = [];
    while (at < text.length && text[at] !== '}') {
      if (text[at] === ',') at++;
      if (text[at] === '{') {
        at++;
        items.push(list());
      } else if (text[at] === '"') items.push(parse(quoted()));
      else {
        const item = bare();
        items.push(item === 'NULL' ? null : parse(item));
      }
    }
    at++;
    return items;
  };
  return list();
}

/** Prepares bound values in place: arrays become literals. Throws a TypeError for undefined. */
export function bindValues(parameters: unknown[]): unknown[] {
  for (let i = 0; i < parameters.length; i++) {
    const value = parameters[i];
    if (value === undefined) throw new TypeError(`parameter $${i + 1} of a query is undefined; use null`);
    if (Array.isArray(value)) parameters[i] = arrayLiteral(value);
  }
  return parameters;
}

const asIs = (text: string) => text;
const isoOrText = (value: unknown) => (value instanceof Date ? value.toISOString() : String(value));
const jsonText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const boolText = (value: unknown) => (typeof value === 'string' ? value : value ? 't' : 'f');
const isTrue = (text: string) => text === 't';
const parseJson = (text: string): unknown => JSON.parse(text);

const scalars = {
  bool: { to: 16, from: [16], parse: isTrue, serialize: boolText },
  int8: { to: 20, from: [20], parse: Number, serialize: String },
  date: { to: 1082, from: [1082], parse: asIs, serialize: isoOrText },
  timestamp: { to: 1114, from: [1114], parse: asIs, serialize: isoOrText },
  timestamptz: { to: 1184, from: [1184], parse: isoTimestamp, serialize: isoOrText },
  json: { to: 114, from: [114, 3802], parse: parseJson, serialize: jsonText },
};

const ARRAYS: [oid: number, parse: (item: string) => unknown][] = [
  [1000, isTrue],
  ...[1005, 1007, 1016, 1021, 1022].map((oid): [number, typeof Number] => [oid, Number]),
  ...[1002, 1003, 1009, 1014, 1015, 1115, 1182, 1231, 2951].map((oid): [number, typeof asIs] => [oid, asIs]),
  [1185, isoTimestamp],
  [199, parseJson],
  [3807, parseJson],
];

const arrays = Object.fromEntries(
  ARRAYS.map(([oid, parse]) => [
    `array${oid}`,
    { to: oid, from: [oid], parse: (text: string) => parseArray(text, parse), serialize: String },
  ]),
);

/** The `types` option of the driver. */
export const WIRE_TYPES = { ...arrays, ...scalars };
