// Derives fields from the columns of a CSV file: keys and labels from the header, types from the first values. A type is chosen
// only if every value that was read fits it; a column without values is text. A column `company.code` is the relation `company`
// if its entity is given: its values name records by that unique field.
// Failures: usage errors for a file without a header, and for names that are not columns of it.
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
  entity?: string;
}

/** What the columns do not tell: the field that finds records, and the entities of relations, by key. */
export interface ColumnHints {
  unique: string | undefined;
  targets: ReadonlyMap<string, string>;
}

const HEAD_BYTES = 1_048_576;
/** Fields that the service sets itself. */
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

/** The fields for the columns of a file. */
export async function describeColumns(
  path: string,
  delimiter: string | undefined,
  hints: ColumnHints,
): Promise<ColumnField[]> {
  requireFile(path);
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return fieldsOf(headOf(buffer.toString('utf8', 0, bytesRead), delimiter), hints);
  } finally {
    await file.close();
  }
}

function fieldsOf({ header, rows }: Head, { unique, targets }: ColumnHints): ColumnField[] {
  const keys = keysFor(header);
  const fields = header
    .map((name, column): ColumnField => {
      const [relation = ''] = name.split('.', 1);
      const entity = name.includes('.') ? targets.get(relation) : undefined;
      if (entity !== undefined) return { key: relation, type: 'relation', entity };
      const key = keys[column] ?? name;
      const type = typeOf(rows.map((row) => row[column] ?? ''));
      return { key, ...(key === name ? {} : { label: name }), type, ...(key === unique ? { unique: true } : {}) };
    })
    .filter(({ key }) => !SYSTEM.includes(key));
  if (fields.length === 0) throw new UsageError('the file has no column to make a field of');
  const known = fields.map(({ key }) => key);
  const missing = [...targets.keys()].filter((key) => !known.includes(key));
  if (missing.length > 0) throw new UsageError(`--relation: the file has no column ${missing[0]}.<unique field>`);
  if (unique !== undefined && !known.includes(unique)) {
    throw new UsageError(`--upsert: the file has no column with the key ${unique}, but ${known.join(', ')}`);
  }
  return fields;
}

function typeOf(values: readonly string[]): string {
  const given = values.filter((value) => value !== '');
  if (given.length === 0) return 'text';
  return TYPES.find(([, pattern]) => given.every((one) => pattern.test(one)))?.[0] ?? 'text';
}

interface Head {
  header: string[];
  rows: string[][];
}

/** If only the beginning of the file was read, the record that is cut off is omitted. */
function headOf(text: string, given: string | undefined): Head {
  const delimiter = typedDelimiter(given) ?? delimiterOf(text);
  const [header = [], ...rows] = parse(text.slice(0, text.lastIndexOf('\n') + 1 || undefined), {
    ...{ delimiter, bom: true, relax_column_count: true, skip_empty_lines: true, skip_records_with_error: true },
  }) as string[][];
  return { header, rows };
}
