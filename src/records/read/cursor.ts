// The cursors of lists: the start of a page, as a text that is valid for the same sort only. A cursor must fit into a URL, so it
// contains only the beginnings of long values and their hashes; the values are read from the record. If the record has changed
// since, the page starts at the first value with that beginning: it may repeat records, but skips none.
// Failures: 400 for a text that is not a cursor of the list. Contract: decisions#lists.
import { invalidField } from '../../errors.ts';
import { isUuid } from '../../runtime/ids.ts';
import { join, type Sql, sql } from '../../runtime/sql.ts';
import { sha256 } from '../../runtime/tokens.ts';
import type { Cursor, Order, SortKey } from './order.ts';

/** The most characters of a cursor with whole values. */
const WHOLE_MAX = 4_096;
/** How many characters of each value a longer cursor contains. */
const START_MAX = 256;
/** The last code point, which comes after every text. */
const LAST = '\u{10ffff}';

type Whole = string | null;
type Written = Whole | readonly [start: string, hash: string];

/** The values of a cursor, as an array of texts. */
export function cursorColumns({ keys }: Order): Sql {
  return sql`array[${join(
    keys.map(({ column }) => sql`(${column})::text`),
    ', ',
  )}]`;
}

/** The cursor after a row. */
export function writeCursor({ keys }: Order, values: readonly Whole[], id: string): string {
  const textOf = (written: readonly Written[]): string =>
    Buffer.from(JSON.stringify([signature(keys), written, id])).toString('base64url');
  const isLong = values.reduce((sum, value) => sum + (value?.length ?? 0), 0) > WHOLE_MAX;
  const text = isLong ? '' : textOf(values);
  return isLong || text.length > WHOLE_MAX
    ? textOf(values.map((value, i) => (isTextKey(keys[i]) ? shortened(value) : value)))
    : text;
}

function shortened(value: Whole): Written {
  if (value === null || value.length <= START_MAX) return value;
  // Without half of a surrogate pair.
  return [value.slice(0, START_MAX).replace(/[\ud800-\udbff]$/, ''), hashOf(value)];
}

function hashOf(value: string): string {
  return sha256(value).toString('base64url');
}

/** Reads a cursor; `presentOf` reads the current values of a record in the list. Null for an empty cursor, the first page. */
export async function readCursor(
  order: Order,
  text: string,
  presentOf: (id: string) => Promise<readonly Whole[] | undefined>,
): Promise<Cursor | null> {
  if (text === '') return null;
  const { written, id } = parse(order, text);
  if (written.every(isWhole)) return { values: written, id };
  const present = await presentOf(id);
  if (present !== undefined && written.every((value, i) => isOf(value, present[i] ?? null))) {
    return { values: [...present], id };
  }
  const values = written.map((value, i) => (isWhole(value) ? value : firstOf(value[0], order.keys[i])));
  return { values, id };
}

function isWhole(value: Written): value is Whole {
  return value === null || typeof value === 'string';
}

function isOf(written: Written, value: Whole): boolean {
  return isWhole(written) ? written === value : value !== null && hashOf(value) === written[1];
}

/** The value that comes before all values with this beginning. */
function firstOf(start: string, key: SortKey | undefined): string {
  return key?.isDescending === true ? start + LAST : start;
}

function parse({ keys }: Order, text: string): { written: Written[]; id: string } {
  const problem = invalidField('cursor', 'is not a cursor of this list; start again with an empty one');
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    throw problem;
  }
  if (!Array.isArray(parsed) || parsed.length !== 3 || parsed[0] !== signature(keys)) throw problem;
  const [, written, id] = parsed as [string, unknown, unknown];
  const isSound =
    typeof id === 'string' &&
    isUuid(id) &&
    Array.isArray(written) &&
    written.length === keys.length &&
    written.every((value, i) => isText(value) || value === null || isStart(value, keys[i]));
  if (!isSound) throw problem;
  return { written, id };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0');
}

/** Whether the key is of a text type: only texts are long. */
function isTextKey(key: SortKey | undefined): boolean {
  return key?.sqlType === 'text';
}

function isStart(value: unknown, key: SortKey | undefined): boolean {
  return Array.isArray(value) && value.length === 2 && value.every(isText) && isTextKey(key);
}

function signature(keys: readonly SortKey[]): string {
  return keys.map(({ name, isDescending }) => `${isDescending ? '-' : '+'}${name}`).join(',');
}
