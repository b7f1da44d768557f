// Cells to and from a spreadsheet: tab-separated lines, with quotes around what has tabs or line breaks. Copied values are
// those that are stored. Pasted texts become values by the type of their field; what cannot is listed with the reason.

import type { Field, Page, Row } from '../api/answers.ts';
import { get } from '../api/call.ts';
import { entityQuery, queryClient } from '../api/queries.ts';
import { titleKeyOf, titleOf } from '../parts/value.ts';
import type { GridColumn } from './columns.ts';
import type { Rows } from './rows.ts';
import { copyText, parseText } from './values.ts';
import { type Change, IDS_PER_CALL, isSame } from './write-cells.ts';

/** A block of cells, both ends included. */
export interface Range {
  rows: [first: number, last: number];
  columns: [first: number, last: number];
}

/** A cell that was not pasted, and why. */
export interface RefusedCell {
  row: number;
  title: string;
  column: string;
  text: string;
  problem: string;
}

export interface Paste {
  rows: number;
  columns: number;
  changes: Change[];
  refused: RefusedCell[];
  /** Lines and columns of the block that have no place in the grid. */
  beyond: { rows: number; columns: number };
}

/** Rows of a block that one pastes at once. */
export const MOST_PASTED = 1_000;
const UUID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

export function printBlock(rows: readonly Row[], columns: readonly GridColumn[]): string {
  return rows.map((row) => columns.map(({ key }) => quoted(copyText(row[key]))).join('\t')).join('\n');
}

function quoted(text: string): string {
  return /[\t\r\n"]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const CELL = /(?:"((?:[^"]|"")*)"|([^\t\r\n]*))(\t|\r\n|\n|\r|$)/y;

/** The lines of a copied block; a line break at the end begins no further one. */
export function parseBlock(text: string): string[][] {
  const lines: string[][] = [[]];
  CELL.lastIndex = 0;
  while (CELL.lastIndex <= text.length) {
    const match = CELL.exec(text);
    if (match === null) break;
    const [, inQuotes, plain = '', end] = match;
    lines.at(-1)?.push(inQuotes === undefined ? plain : inQuotes.replaceAll('""', '"'));
    if (end === '' || CELL.lastIndex >= text.length) {
      if (end === '\t') lines.at(-1)?.push('');
      break;
    }
    if (end !== '\t') lines.push([]);
  }
  return lines;
}

/** What pasting a block would change, with `range.rows[0]`, `range.columns[0]` under its first cell. One cell fills the range. */
export async function planPaste(
  tenant: string,
  block: readonly string[][],
  range: Range,
  rows: Rows,
  columns: readonly GridColumn[],
): Promise<Paste> {
  const width = Math.max(...block.map(({ length }) => length));
  const isFill = block.length === 1 && width === 1;
  const [top, left] = [range.rows[0], range.columns[0]];
  const height = isFill ? range.rows[1] - top + 1 : block.length;
  const span = isFill ? range.columns[1] - left + 1 : width;
  const fit = {
    rows: Math.min(height, rows.length - top, MOST_PASTED),
    columns: Math.min(span, columns.length - left),
  };
  await rows.load(top, top + fit.rows - 1);
  const plan: Paste = {
    rows: height,
    columns: span,
    changes: [],
    refused: [],
    beyond: { rows: height - fit.rows, columns: span - fit.columns },
  };
  for (let x = 0; x < fit.columns; x += 1) {
    const column = columns[left + x] as GridColumn;
    const texts = Array.from({ length: fit.rows }, (_, y) => (isFill ? block[0]?.[0] : block[y]?.[x]));
    const toValue = await parserOf(tenant, column.field, texts);
    texts.forEach((text, y) => {
      const row = rows.at(top + y);
      if (text === undefined) return;
      const parsed = row === undefined ? { problem: 'is not loaded' } : valueIn(rows, row, column, text, toValue);
      if ('problem' in parsed) {
        const title = row === undefined ? '' : titleOf(row);
        plan.refused.push({ row: top + y, title, column: column.label, text, problem: parsed.problem });
      } else if (row !== undefined && !isSame(parsed.value, row[column.key])) {
        const { id } = row;
        plan.changes.push({ id, key: column.key, before: row[column.key], value: parsed.value, etag: rows.etagOf(id) });
      }
    });
  }
  return plan;
}

type Parsed = { value: unknown } | { problem: string };

function valueIn(rows: Rows, row: Row, column: GridColumn, text: string, toValue: (text: string) => Parsed): Parsed {
  if (column.fixed !== null) return { problem: column.fixed };
  if (rows.isCut(row.id, column.key)) return { problem: 'holds a text that is too long to be changed in the grid' };
  return toValue(text);
}

/** Parses the texts of a column. The records that relations name by title are looked up once. */
async function parserOf(
  tenant: string,
  field: Field,
  texts: readonly (string | undefined)[],
): Promise<(text: string) => Parsed> {
  const titles = field.type === 'relation' && field.entity ? await idsByTitle(tenant, field.entity, texts) : null;
  return (text) => {
    if (text.trim() === '') return field.required ? { problem: 'must have a value' } : { value: null };
    if (titles !== null && !UUID.test(text.trim())) {
      const ids = titles.get(text.trim()) ?? [];
      if (ids.length === 1) return { value: ids[0] };
      return { problem: ids.length === 0 ? `is the title of no record in ${field.entity}` : `is the title of several` };
    }
    if (field.type === 'select') {
      const wanted = text.trim().toLowerCase();
      const option =
        field.options?.find((one) => one === text) ?? field.options?.find((one) => one.toLowerCase() === wanted);
      return option === undefined ? { problem: `is none of ${field.options?.join(', ')}` } : { value: option };
    }
    return parseText(field, text);
  };
}

async function idsByTitle(
  tenant: string,
  entity: string,
  texts: readonly (string | undefined)[],
): Promise<Map<string, string[]>> {
  const wanted = [...new Set(texts.map((text) => text?.trim() ?? ''))].filter(
    (text) => text !== '' && !UUID.test(text),
  );
  const found = new Map<string, string[]>();
  if (wanted.length === 0) return found;
  const key = titleKeyOf((await queryClient.fetchQuery(entityQuery(tenant, entity))).fields);
  if (key === undefined) return found;
  for (let at = 0; at < wanted.length; at += 10) {
    const names = wanted.slice(at, at + 10).filter((text) => text.length < 150);
    if (names.length === 0) continue;
    const filters = `${key} in (${names.map((text) => `"${text.replace(/[\\"]/g, '\\$&')}"`).join(', ')})`;
    const query = { filters, fields: key, limit: IDS_PER_CALL, count: 'none' };
    const { items } = await get<Page<Row>>(`/api/entities/${entity}/records`, { tenant, query });
    for (const row of items) {
      const title = String(row[key]);
      found.set(title, [...(found.get(title) ?? []), row.id]);
    }
  }
  return found;
}
