// The header of a CSV file. Columns may be named by the labels of fields, as spreadsheets do ("Full name"): the header is
// rewritten to the field keys while the file is sent; everything after it is passed through unchanged.
// A name that is neither a key nor a label is kept: the service reports it.
import { parse } from 'csv-parse/sync';

const LINE_FEED = 10;
const QUOTE = 34;
/** A header that does not end within this many bytes is sent unchanged. */
const HEADER_MAX = 1_048_576;
const KEY = /^[a-zA-Z][a-zA-Z0-9_]{0,62}$/;
/** Names that the service reserves, and the key for a column of that name. */
const RESERVED = { name: 'recordName' };

/** Whether a column's name can be the key of a field. */
function isKey(name: string): boolean {
  return KEY.test(name) && !Object.hasOwn(RESERVED, name);
}

/** Keys for the columns: names that can be keys are kept, "Full name" becomes `fullName`, and no key is used twice. */
export function keysFor(header: readonly string[]): string[] {
  const used = new Set(header.filter(isKey));
  return header.map((name) => {
    if (isKey(name)) return name;
    const wanted = wantedKey(name);
    let key = wanted;
    for (let again = 2; used.has(key); again += 1) key = `${wanted}${again}`;
    used.add(key);
    return key;
  });
}

function wantedKey(name: string): string {
  const words = name
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .replaceAll('ß', 'ss')
    .replace(/(?<=[a-z])-(?=[a-z])/gi, '')
    .split(/[^a-zA-Z0-9]+/)
    .filter((word) => word !== '');
  const joined = words.map((word, at) => (at === 0 ? lowerFirst(word) : upperFirst(word))).join('');
  const key = (/^[a-z]/i.test(joined) ? joined : `column${upperFirst(joined)}`).slice(0, 60);
  return Object.hasOwn(RESERVED, key) ? RESERVED[key as keyof typeof RESERVED] : key;
}

function lowerFirst(word: string): string {
  // An abbreviation such as SKU is one word.
  return word === word.toUpperCase() ? word.toLowerCase() : word.charAt(0).toLowerCase() + word.slice(1);
}

function upperFirst(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/** The names in the first line of a file. */
export function headerOf(line: string, delimiter: string): string[] {
  return (parse(line, { delimiter, bom: true, to_line: 1, relax_column_count: true }) as string[][])[0] ?? [];
}

/** The most frequent delimiter in the first line, outside quotes. */
export function delimiterOf(text: string): string {
  const first = text.split(/\r?\n/, 1)[0]?.replace(/"[^"]*"/g, '') ?? '';
  const counts = [',', ';', '\t'].map((one) => [one, first.split(one).length] as const);
  return counts.reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

/** A delimiter as typed in a shell. */
export function typedDelimiter(given: string | undefined): string | undefined {
  return given === '\\t' ? '\t' : given;
}

/** The bytes of a CSV file, with labels in the header replaced by the fields' keys. */
export async function* withKeys(
  bytes: AsyncIterable<Uint8Array>,
  delimiter: string | undefined,
  keysByLabel: ReadonlyMap<string, string>,
): AsyncGenerator<Uint8Array> {
  let head: Buffer | null = Buffer.alloc(0);
  for await (const chunk of bytes) {
    if (head === null) {
      yield chunk;
      continue;
    }
    head = Buffer.concat([head, chunk]);
    const end = endOfHeader(head);
    if (end < 0 && head.length < HEADER_MAX) continue;
    yield* rewritten(head, end, delimiter, keysByLabel);
    head = null;
  }
  if (head !== null && head.length > 0) yield* rewritten(head, head.length, delimiter, keysByLabel);
}

function rewritten(
  head: Buffer,
  end: number,
  given: string | undefined,
  keysByLabel: ReadonlyMap<string, string>,
): Uint8Array[] {
  const line = head.toString('utf8', 0, Math.max(0, end));
  const delimiter = typedDelimiter(given) ?? delimiterOf(line);
  const names = headerOf(line, delimiter);
  const keys = names.map((name) => {
    const key = keysByLabel.get(name);
    return key === undefined || names.includes(key) ? name : key;
  });
  if (keys.every((key, at) => key === names[at])) return [head];
  const lineEnd = /\r?\n$/.exec(line)?.[0] ?? '\n';
  const header = Buffer.from(keys.map((key) => cell(key, delimiter)).join(delimiter) + lineEnd);
  return end < head.length ? [header, head.subarray(end)] : [header];
}

/** The end of the first record, or -1 if it is not there yet. A line break inside quotes does not end a record. */
function endOfHeader(bytes: Buffer): number {
  let isQuoted = false;
  for (let at = 0; at < bytes.length; at += 1) {
    if (bytes[at] === QUOTE) isQuoted = !isQuoted;
    else if (bytes[at] === LINE_FEED && !isQuoted) return at + 1;
  }
  return -1;
}

function cell(value: string, delimiter: string): string {
  return value.includes(delimiter) || /["\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
