// A file or a pasted text as records of values by column, read piece by piece, so that its size does not matter. Lines of
// NDJSON and CSV become the same: the number of the line and its values. Bytes that are not UTF-8 are read as
// Windows-1252, which is what spreadsheets write; the person is told.
import { CsvReader, MOST_CHARACTERS, separatorOf } from './csv.ts';

export type Format = 'csv' | 'ndjson';
export type Encoding = 'utf-8' | 'windows-1252' | 'utf-16le' | 'utf-16be';

export interface Source {
  name: string;
  blob: Blob;
  format: Format;
  encoding: Encoding;
  /** Of CSV. */
  separator: string;
  columns: string[];
  /** The first records. */
  samples: SourceRecord[];
}

export interface SourceRecord {
  line: number;
  /** By column: texts of CSV, any values of NDJSON. */
  values: Record<string, unknown>;
  /** Why it cannot be read. */
  problem?: string;
}

/** What a file of refused lines has besides the columns of its origin; it is imported without them. */
export const REFUSED_COLUMNS: readonly string[] = ['_line', '_reason'];
/** Records that columns, their types and the preview are taken from. */
const SAMPLES = 200;
const HEAD_BYTES = 256 * 1_024;
/** Read between two looks at what the person does: a few milliseconds of work. */
const PIECE_BYTES = 128 * 1_024;
const ZIP = 'PK\u0003\u0004';

export async function openSource(blob: Blob, name: string): Promise<Source> {
  const encoding = await encodingOf(blob);
  const head = new TextDecoder(encoding).decode(await blob.slice(0, HEAD_BYTES).arrayBuffer());
  if (head.startsWith(ZIP)) throw new Error('It is a spreadsheet or an archive: save it as CSV first');
  if (head.includes('\0')) throw new Error('It is not a text file');
  if (head.trim() === '') throw new Error('There is nothing in it');
  const format: Format = head.trimStart().startsWith('{') ? 'ndjson' : 'csv';
  const source: Source = { name, blob, format, encoding, separator: separatorOf(head), columns: [], samples: [] };
  const columns = new Set<string>();
  for await (const { records } of recordsOf(source)) {
    source.samples.push(...records.slice(0, SAMPLES - source.samples.length));
    if (source.samples.length >= SAMPLES) break;
  }
  for (const { values } of source.samples) for (const column of Object.keys(values)) columns.add(column);
  source.columns = [...columns].filter((column) => !REFUSED_COLUMNS.includes(column));
  if (source.columns.length === 0) throw new Error('No record was found in it');
  return source;
}

/** By the byte order mark; without one UTF-8 when all of the file is, else Windows-1252. */
async function encodingOf(blob: Blob): Promise<Encoding> {
  const [first, second] = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  const decoder = new TextDecoder('utf-8', { fatal: true });
  try {
    for await (const piece of piecesOf(blob)) decoder.decode(piece, { stream: true });
    decoder.decode();
    return 'utf-8';
  } catch (cause) {
    if (cause instanceof TypeError) return 'windows-1252';
    throw cause;
  }
}

/** The records with the bytes read so far. */
export async function* recordsOf(
  source: Source,
  signal?: AbortSignal,
): AsyncGenerator<{ records: SourceRecord[]; bytes: number }> {
  const decoder = new TextDecoder(source.encoding);
  const parse = source.format === 'csv' ? csvParser(source.separator) : ndjsonParser();
  let bytes = 0;
  for await (const piece of piecesOf(source.blob)) {
    signal?.throwIfAborted();
    bytes += piece.byteLength;
    yield { records: parse(decoder.decode(piece, { stream: true }), false), bytes };
  }
  yield { records: parse(decoder.decode(), true), bytes };
}

async function* piecesOf(blob: Blob): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < blob.size; from += PIECE_BYTES) {
    yield new Uint8Array(await blob.slice(from, from + PIECE_BYTES).arrayBuffer());
  }
}

type Parse = (text: string, isEnd: boolean) => SourceRecord[];

function csvParser(separator: string): Parse {
  const reader = new CsvReader(separator);
  let columns: string[] | null = null;
  return (text, isEnd) => {
    const records = [...reader.read(text), ...(isEnd ? reader.end() : [])];
    if (columns === null) {
      const header = records.shift();
      if (header?.problem !== undefined) throw new Error(`Its first line ${header.problem}`);
      columns = header === undefined ? null : columnNames(header.cells);
    }
    const names = columns ?? [];
    return records.map(({ line, cells, problem }) => {
      const values = Object.fromEntries(names.map((column, at) => [column, cells[at] ?? '']));
      const isTooMany = cells.length > names.length;
      const reason = problem ?? (isTooMany ? `has ${cells.length} values for ${names.length} columns` : undefined);
      return { line, values, ...(reason === undefined ? {} : { problem: reason }) };
    });
  };
}

/** Each column has a name of its own: those without get their number, those of one name are counted. */
function columnNames(header: readonly string[]): string[] {
  const names: string[] = [];
  for (const [at, cell] of header.entries()) {
    const plain = cell.trim() || `Column ${at + 1}`;
    let name = plain;
    for (let count = 2; names.includes(name); count += 1) name = `${plain} (${count})`;
    names.push(name);
  }
  return names;
}

function ndjsonParser(): Parse {
  let rest = '';
  let line = 0;
  let isTooLong = false;
  return (text, isEnd) => {
    const lines = (rest + text).split('\n');
    rest = isEnd ? '' : (lines.pop() ?? '');
    const records = lines.flatMap((one): SourceRecord[] => {
      line += 1;
      const wasTooLong = isTooLong;
      isTooLong = false;
      if (wasTooLong) return [{ line, values: {}, problem: 'is longer than 1 MiB' }];
      return one.trim() === '' ? [] : [jsonRecord(one, line)];
    });
    if (rest.length > MOST_CHARACTERS) {
      rest = '';
      isTooLong = true;
    }
    return records;
  };
}

function jsonRecord(text: string, line: number): SourceRecord {
  try {
    const values = JSON.parse(text) as unknown;
    if (typeof values === 'object' && values !== null && !Array.isArray(values)) {
      return { line, values: values as Record<string, unknown> };
    }
  } catch {
    // Said below.
  }
  return { line, values: {}, problem: 'is not a JSON object' };
}
