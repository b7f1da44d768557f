// Fields from the columns of a CSV file: keys and labels from the header, types from the first values. A type is taken only when every value
// that was read fits it; a column without a value is text.
// Failures: usage errors for a file without a header or without keys that can be told apart.
import { open } from 'node:fs/promises';
import { parse } from 'csv-parse/sync';
import { UsageError } from './failures.ts';
import { delimiterOf, keysFor, typedDelimiter } from './header.ts';
import { requireFile } from './input.ts';

export interface ColumnField {
  key: string;
  type: string;
  label?: string;
  unique?: boolean;
  indexed?: boolean;
}

const HEAD_BYTES = 1_048_576;
/** The service sets them itself. */
const SYSTEM = ['id', 'entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];

const TYPES: readonly [string, RegExp][] = [
  ['boolean', /^(true|false)$/i],
  ['integer', /^(0|-?[1-9]\d{0,14})$/],
  ['decimal', /^-?(0|[1-9]\d{0,14})\.\d{1,10}$|^(0|-?[1-9]\d{0,14})$/],
  ['number', /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/],
  ['date', /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/],
  ['datetime', /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/],
  ['email', /^[^\s@,;<>]+@[^\s@,;<>]+\.[^\s@,;<>]+$/],
  ['url', /^https?:\/\/[^\s]+$/],
];

/** The fields for the columns of a file; `unique` names the column that is to be a unique field. */
export async function describeColumns(
  path: string,
  delimiter: string | undefined,
  unique: string | undefined,
): Promise<ColumnField[]> {
  requireFile(path);
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    const { header, rows } = headOf(buffer.toString('utf8', 0, bytesRead), delimiter);
    const keys = keysFor(header);
    const fields = header
      .map((name, column) => ({
        key: keys[column] ?? name,
        ...(keys[column] === name ? {} : { label: name }),
        type: typeOf(rows.map((row) => row[column] ?? '')),
      }))
      .filter(({ key }) => !SYSTEM.includes(key))
      .map((field) => (field.key === unique ? { ...field, unique: true } : field));
    if (fields.length === 0) throw new UsageError('the file has no column to make a field of');
    return fields;
  } finally {
    await file.close();
  }
}

function typeOf(values: readonly string[]): string {
  const given = values.filter((value) => value !== '');
  if (given.length === 0) return 'text';
  return TYPES.find(([, pattern]) => given.every((one) => pattern.test(one)))?.[0] ?? 'text';
}

/** Of a file of which only the beginning was read, the record that the end cuts is left out. */
function headOf(text: string, given: string | undefined): { header: string[]; rows: string[][] } {
  const delimiter = typedDelimiter(given) ?? delimiterOf(text);
  const [header = [], ...rows] = parse(text.slice(0, text.lastIndexOf('\n') + 1 || undefined), {
    ...{ delimiter, bom: true, relax_column_count: true, skip_empty_lines: true, skip_records_with_error: true },
  }) as string[][];
  return { header, rows };
}
