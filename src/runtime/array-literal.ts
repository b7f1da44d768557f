// JavaScript arrays as Postgres array literals, the text in which array parameters are sent. An import spends much of its CPU in this
// file.
// Failures: a TypeError for an item of another type.

const LONG_ITEM = 8_192;
/** JSON and Postgres escape these characters differently. */
const CONTROL = /[\u0000-\u001f]/;

/** An array as a literal; items are text, numbers, booleans, null or arrays. */
export function arrayLiteral(items: readonly unknown[]): string {
  return `{${items.map(arrayItem).join(',')}}`;
}

function arrayItem(item: unknown): string {
  if (typeof item === 'string') return textItem(item);
  if (item === null) return 'NULL';
  if (Array.isArray(item)) return arrayLiteral(item);
  if (typeof item === 'number' || typeof item === 'boolean' || typeof item === 'bigint') return String(item);
  throw new TypeError(`an array parameter contains ${item === undefined ? 'undefined' : typeof item}`);
}

/** For a text without control characters, JSON.stringify escapes as Postgres expects, in a third of the time. */
function textItem(text: string): string {
  if (text.length < LONG_ITEM && !text.includes('"') && !text.includes('\\')) return `"${text}"`;
  if (text.isWellFormed() && !CONTROL.test(text)) return JSON.stringify(text);
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}
