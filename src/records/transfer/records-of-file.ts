// Reads the values in the lines of a file: CSV, whose first line names the columns, or JSON. Columns and members of system
// fields are ignored, except an id that is kept.
// Failures: 400 for a header that does not match the entity; a problem of another line affects only that line.
// Contract: decisions#import.
import { specOf } from '../../entities/field-types.ts';
import { invalid, invalidField, type Problem } from '../../errors.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { parseObject, parseValue } from '../../http/json-object.ts';
import { LIMITS } from '../../limits.ts';
import { isUuid } from '../../runtime/ids.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { cellsOf, delimiterOf } from './csv.ts';
import type { Line } from './lines.ts';
import { type RelationContext, relatedBy } from './related.ts';

export type ImportFormat = 'csv' | 'ndjson' | 'json';

const { headerProblemsMax } = LIMITS.transfer;
const CELL_ITEMS_MAX = 1_001;

/** Null for a line without values, such as a header. */
export type ParsedLine = { id: string; values: JsonObject } | { problem: string } | null;

export interface FileOptions {
  format: ImportFormat;
  /** The delimiter of CSV; found from the header when it is not given. */
  delimiter?: string | undefined;
  /** Whether new records get the ids of the file. */
  keepsIds: boolean;
  /** The field by which records are found. */
  upsert?: string | undefined;
}

/** A parser for the file's lines, called in order. It throws a 400 for a header that does not match the entity. */
export function lineParser(
  context: RelationContext,
  options: FileOptions,
): (line: Line) => ParsedLine | Promise<ParsedLine> {
  if (options.format !== 'csv') return (line) => ('problem' in line ? line : parseJson(line, options));
  let header: Header | null = null;
  return (line) => {
    if (header !== null) return 'problem' in line ? line : parseCells(header, line.text, options);
    header = parseHeader(context, line, options);
    return null;
  };
}

const ID_PROBLEM = 'id: must be a UUID, since ids are kept';

/** The line with the id that it brings, if ids are kept. */
function withId(id: unknown, values: JsonObject, { keepsIds }: FileOptions): ParsedLine {
  if (!keepsIds) return { id: '', values };
  return typeof id === 'string' && isUuid(id) ? { id: id.toLowerCase(), values } : { problem: ID_PROBLEM };
}

const MISPLACED_QUOTES = 'has misplaced quotes (see RFC 4180)';
/** The cells of a header that are read. A valid header has fewer; a longer one has as many problems as are listed. */
const HEADER_CELLS_MAX = LIMITS.entity.fieldsMax + Object.keys(SYSTEM_FIELDS).length + headerProblemsMax;

/** A member of the values, and how to read its cells. */
interface Column {
  key: string;
  read(cell: string): unknown;
}

interface Header {
  delimiter: string;
  /** Null for a system field. */
  columns: (Column | null)[];
  /** The column of the id; -1 for none. */
  idAt: number;
}

function parseHeader(
  context: RelationContext,
  line: Line,
  { delimiter: given, keepsIds, upsert }: FileOptions,
): Header {
  const delimiter = given ?? ('text' in line ? delimiterOf(line.text) : ',');
  const cells = 'text' in line ? cellsOf(line.text, HEADER_CELLS_MAX, delimiter) : null;
  if (cells === null) throw invalidField('header', 'problem' in line ? line.problem : MISPLACED_QUOTES);
  const problems: Problem[] = [];
  const known = new Set<string>();
  const columns: Header['columns'] = [];
  for (const cell of cells) {
    const key = cell.trim();
    const column = columnNamed(context, key);
    if (known.has(key)) problems.push({ path: key.slice(0, 200), message: 'names two columns' });
    known.add(key);
    if (column !== null && 'problem' in column) problems.push({ path: key.slice(0, 200), message: column.problem });
    if (problems.length >= headerProblemsMax) break;
    columns.push(column !== null && 'key' in column ? column : null);
  }
  if (problems.length > 0) throw invalid(problems.slice(0, headerProblemsMax));
  const missing = [...(keepsIds ? ['id'] : []), ...(upsert === undefined ? [] : [upsert])].filter(
    (key) => !known.has(key),
  );
  if (missing.length > 0) throw invalid(missing.map((path) => ({ path, message: 'is not a column of the file' })));
  return { delimiter, columns, idAt: cells.findIndex((cell) => cell.trim() === 'id') };
}

/** The field or relation of a column; null for a system field. */
function columnNamed(context: RelationContext, key: string): Column | { problem: string } | null {
  const { entity, isVisible } = context.scope;
  const field = entity.byKey.get(key);
  if (field !== undefined && isVisible(field)) return { key, read: specOf(field).cell.read };
  if (Object.hasOwn(SYSTEM_FIELDS, key)) return null;
  const related = relatedBy(context, key);
  if ('problem' in related) return related;
  const { relation, by } = related;
  const { read } = specOf(by).cell;
  return { key, read: relation.type === 'relation' ? read : (cell) => listIn(cell).map(read) };
}

/** A list, as a JSON array or as texts separated by commas. */
function listIn(cell: string): string[] {
  const list = parseValue(cell);
  if (Array.isArray(list)) return list.map(String);
  return (cellsOf(cell, CELL_ITEMS_MAX) ?? [cell]).map((item) => item.trim()).filter((item) => item !== '');
}

function parseCells({ delimiter, columns, idAt }: Header, text: string, options: FileOptions): ParsedLine {
  const cells = cellsOf(text, columns.length + 1, delimiter);
  if (cells === null) return { problem: MISPLACED_QUOTES };
  if (cells.length !== columns.length) {
    const found = cells.length < columns.length ? cells.length : 'more';
    return { problem: `has ${found} cells, but the header has ${columns.length}` };
  }
  const values: JsonObject = {};
  for (const [i, column] of columns.entries()) {
    const cell = cells[i] as string;
    if (column !== null && cell !== '') values[column.key] = column.read(cell);
  }
  return withId(cells[idAt], values, options);
}

async function parseJson({ text, item }: { text: string; item?: number }, options: FileOptions): Promise<ParsedLine> {
  if (item === undefined && text.trim() === '') return null;
  const parsed = await parseObject(text);
  if ('problems' in parsed) {
    const [{ path, message } = { path: '', message: '' }] = parsed.problems;
    return { problem: path === 'body' ? message : `${path}: ${message}` };
  }
  const values = parsed.value;
  const { id } = values;
  for (const key of Object.keys(SYSTEM_FIELDS)) delete values[key];
  return withId(id, values, options);
}
