// A row of an export as the database sends it, in bytes. A small row is decoded into a record. Of a large row, NDJSON copies
// texts from the row to the file as they are, without decoding them: Postgres escapes JSON as JSON.stringify does. CSV copies
// texts without escapes, and decodes the others in parts.
// Contract: decisions#export, neighbours#byte-budgets.
import type { Buffer } from 'node:buffer';
import type { Entity, Field } from '../../entities/field.ts';
import { cellOf, specOf } from '../../entities/field-types.ts';
import type { SlotValues } from '../../entities/values.ts';
import { isoTimestamp } from '../../runtime/postgres/values.ts';
import type { RawRow } from '../../runtime/postgres.ts';
import { sql } from '../../runtime/sql.ts';
import { type RecordRow, shape } from '../row.ts';
import { csvCell, csvLine, quotedPart } from './csv.ts';

/** A row with more bytes of stored values than this is not decoded as a whole. */
const LARGE_ROW = 131_072;
/** Bytes from which a value becomes a piece of its own. */
const LARGE_VALUE = 8_192;
/** Bytes of a long text that are decoded at once. */
const PART = 32_768;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const APOSTROPHE = 0x27;
const LETTER_U = 0x75;

/** The columns of an export, in a table with the alias `r`: few, because each costs as much as decoding its text. */
export const EXPORT_COLUMNS = sql`r.data,
  concat(r.id, chr(10), r.created_at, chr(10), r.updated_at, chr(10), r.created_by, chr(10), r.updated_by, chr(10), r.version)`;

/** The row in the decoded form that `shape` takes. */
function decodedRow(raw: RawRow): RecordRow {
  return rowOf(raw, JSON.parse(String(raw[DATA])));
}

/** The record as JSON, in pieces of text or of UTF-8. */
export function* recordJson(raw: RawRow, entity: Entity, fields: readonly Field[]): Generator<string | Uint8Array> {
  const data = raw[DATA] as Buffer;
  if (data.length < LARGE_ROW) {
    yield JSON.stringify(shape(decodedRow(raw), entity, fields));
    return;
  }
  const { id, entityId, ...rest } = shape(rowOf(raw, {}), entity, []);
  const values = new Map(membersOf(data));
  yield JSON.stringify({ id, entityId }).slice(0, -1);
  for (const { key, slot } of fields) {
    yield `,${JSON.stringify(key)}:`;
    const value = values.get(slot);
    if (value === undefined) yield 'null';
    else if (value[0] === QUOTE) yield value.length >= LARGE_VALUE ? value : value.toString();
    else yield JSON.stringify(JSON.parse(value.toString()));
  }
  yield `,${JSON.stringify(rest).slice(1)}`;
}

/** A column of a CSV file: a field, or, without a slot, a member that every record has. */
export type Column = Pick<Field, 'key' | 'type'> & { slot: string | null };

/** The record as a line of CSV, in pieces. A long text is in quotes, whether or not it needs them. */
export function* csvRecord(raw: RawRow, entity: Entity, columns: readonly Column[]): Generator<string | Uint8Array> {
  const data = raw[DATA] as Buffer;
  if (data.length < LARGE_ROW) {
    const fields = columns.flatMap(({ key, slot }) => (slot === null ? [] : [{ key, slot }]));
    const record = shape(decodedRow(raw), entity, fields);
    yield csvLine(columns.map((column) => cellOf(column, record[column.key])));
    return;
  }
  const record = shape(rowOf(raw, {}), entity, []);
  const values = new Map(membersOf(data));
  let separator = '';
  for (const column of columns) {
    yield separator;
    separator = ',';
    const value = column.slot === null ? undefined : values.get(column.slot);
    if (value === undefined) yield csvCell(cellOf(column, record[column.key]));
    else if (value[0] === QUOTE && value.length >= LARGE_VALUE && specOf(column).isFreeText) {
      yield* longCell(column, value);
    } else yield csvCell(cellOf(column, JSON.parse(value.toString())));
  }
  yield '\n';
}

/** A long text in quotes. A text without escapes, and therefore without quotes, is the same in JSON and CSV. */
function* longCell(column: Column, json: Buffer): Generator<string | Uint8Array> {
  yield `"${guardOf(column, json)}`;
  const last = json.length - 1;
  for (let at = 1; at < last; ) {
    const backslash = json.indexOf(BACKSLASH, at);
    const isPlain = backslash < 0 || backslash >= at + PART;
    const end = isPlain ? Math.min(backslash < 0 ? last : backslash, last) : endOfPart(json, at, PART);
    yield isPlain ? json.subarray(at, end) : quotedPart(decoded(json, at, end));
    at = end;
  }
  yield '"';
}

/**
 * The apostrophe that protects the cell from being run as a formula, if it needs one. The first character that is not an
 * apostrophe decides.
 */
function guardOf(column: Column, json: Buffer): string {
  let at = 1;
  while (json[at] === APOSTROPHE) at += 1;
  const first = decoded(json, at, endOfPart(json, at, 1));
  const cell = cellOf(column, first);
  return cell.slice(0, cell.length - first.length);
}

/** A part of a JSON text. */
function decoded(json: Buffer, start: number, end: number): string {
  return JSON.parse(`"${json.toString('utf8', start, end)}"`);
}

/** The end of a part of about this many bytes, which divides no character and no escape. */
function endOfPart(json: Buffer, start: number, bytes: number): number {
  const last = json.length - 1;
  let end = start;
  for (let at = json.indexOf(BACKSLASH, end); at >= 0 && at < start + bytes; at = json.indexOf(BACKSLASH, end)) {
    end = at + (json[at + 1] === LETTER_U ? 6 : 2);
  }
  end = Math.min(Math.max(end, start + bytes), last);
  while (isContinuation(json[end] as number)) end += 1;
  return end;
}

/** Whether the byte is one of a character in UTF-8, but not its first. */
const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80;

/** The positions of the columns. */
const [DATA, SYSTEM] = [0, 1] as const;

/** The row with these values in place of its stored ones. */
export function rowOf(raw: RawRow, data: SlotValues): RecordRow {
  const system = String(raw[SYSTEM]).split('\n');
  const [id = '', createdAt = '', updatedAt = '', createdBy = '', updatedBy = '', version = ''] = system;
  return {
    id,
    version: Number(version),
    data,
    created_at: isoTimestamp(createdAt),
    updated_at: isoTimestamp(updatedAt),
    created_by: createdBy === '' ? null : createdBy,
    updated_by: updatedBy === '' ? null : updatedBy,
  };
}

/**
 * Iterates the members of an object as Postgres writes it, `{"f1": "text", "f2": [1, 2]}`: slots and the bytes of their values.
 */
function* membersOf(json: Buffer): Generator<[slot: string, value: Buffer]> {
  for (let at = 1; json[at] === QUOTE; ) {
    const colon = endOfText(json, at);
    const from = colon + 2;
    const end = endOfValue(json, from);
    yield [json.toString('latin1', at + 1, colon - 1), json.subarray(from, end)];
    at = end + 2;
  }
}

/** The position after the closing quote of the text that begins here. */
function endOfText(json: Buffer, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at + 1;
}

const COMMA = 0x2c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/** The position of the comma or brace after the value that begins here. */
function endOfValue(json: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < json.length; ) {
    const byte = json[at] as number;
    if (byte === QUOTE) {
      at = endOfText(json, at);
      continue;
    }
    if (depth === 0 && (byte === COMMA || CLOSING.has(byte))) return at;
    if (OPENING.has(byte)) depth += 1;
    else if (CLOSING.has(byte)) depth -= 1;
    at += 1;
  }
  return json.length;
}
