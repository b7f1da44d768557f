// CSV after RFC 4180: cells from a record's text, and records' values to and from cells. An empty cell
// is no value; lists and JSON are JSON text. A text that a spreadsheet would run as a formula gets a
// leading apostrophe, which reading takes away again, as it does for the empty text: written cells
// read back equal. Numbers stay as they are, negative ones too.
import type { FieldRef, FieldType } from '../../expression/ast.ts';

/** The cells of one record; null when its quotes are not as RFC 4180 has them. */
export function cellsOf(text: string): string[] | null {
  if (!text.includes('"')) return text.split(',');
  const cells: string[] = [];
  for (let at = 0; ; at++) {
    const cell = text[at] === '"' ? quotedCell(text, at + 1) : plainCell(text, at);
    if (cell === null) return null;
    cells.push(cell.value);
    at = cell.end;
    if (at === text.length) return cells;
    if (text[at] !== ',') return null;
  }
}

function plainCell(text: string, start: number): { value: string; end: number } | null {
  const comma = text.indexOf(',', start);
  const end = comma < 0 ? text.length : comma;
  const value = text.slice(start, end);
  return value.includes('"') ? null : { value, end };
}

/** `start` is behind the opening quote; the end is behind the closing one. */
function quotedCell(text: string, start: number): { value: string; end: number } | null {
  let value = '';
  for (let from = start; ; ) {
    const quote = text.indexOf('"', from);
    if (quote < 0) return null;
    value += text.slice(from, quote);
    if (text[quote + 1] !== '"') return { value, end: quote + 1 };
    value += '"';
    from = quote + 2;
  }
}

const NEEDS_QUOTES = /[",\r\n]/;

/** A record's line, with its line feed. */
export function csvLine(cells: readonly string[]): string {
  const written = cells.map((cell) => (NEEDS_QUOTES.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  // A single empty cell must not look like an empty line, which readers skip.
  return written.length === 1 && written[0] === '' ? '""\n' : `${written.join(',')}\n`;
}

/** Types whose values are free text. */
const FREE_TEXT: ReadonlySet<FieldType> = new Set(['text', 'email', 'url', 'select']);
const JSON_TYPES: ReadonlySet<FieldType> = new Set(['multiselect', 'json', 'relations']);
/** Text that spreadsheets take for a formula, apostrophes before it included; and text of nothing but apostrophes. */
const FORMULA = /^'*([=+\-@\t\r\n＝＋－＠]|$)/;
const GUARDED = /^'+([=+\-@\t\r\n＝＋－＠]|$)/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A value as a cell. */
export function toCell({ type }: Pick<FieldRef, 'type'>, value: unknown): string {
  if (value === null || value === undefined) return '';
  if (JSON_TYPES.has(type)) return JSON.stringify(value);
  const text = String(value);
  return FREE_TEXT.has(type) && FORMULA.test(text) ? `'${text}` : text;
}

/** What a cell that is not empty says, for the field's reader to judge: it refuses what it gets as text. */
export function fromCell({ type }: Pick<FieldRef, 'type'>, cell: string): unknown {
  if (FREE_TEXT.has(type)) return GUARDED.test(cell) ? cell.slice(1) : cell;
  if (type === 'integer' || type === 'number') return NUMBER.test(cell) ? Number(cell) : cell;
  if (type === 'boolean') return { true: true, false: false }[cell.toLowerCase()] ?? cell;
  return JSON_TYPES.has(type) ? parsed(cell) : cell;
}

/** The JSON value, or the cell itself where it is none. */
function parsed(cell: string): unknown {
  try {
    return JSON.parse(cell);
  } catch {
    return cell;
  }
}
