// Sort keys, compiled to `order by` clauses and to the conditions of keyset paging. Missing values come last in
// either direction; ties are sorted by id; the default is newest first.
// Contract: decisions#order.
import { invalidField } from '../../errors.ts';
import type { FieldRef, Names } from '../../expression/ast.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { isOrdered } from '../../expression/value-types.ts';
import { LIMITS } from '../../limits.ts';
import { isUuid } from '../../runtime/ids.ts';
import { EMPTY, identifier, join, raw, type Sql, sql } from '../../runtime/sql.ts';

export interface SortKey {
  /** What a cursor calls it. */
  name: string;
  /** On table `r`. */
  column: Sql;
  sqlType: string;
  /** Null for a condition. */
  field: FieldRef | null;
  isDescending: boolean;
}

const R = sql`r`;

/** Parses `sort` (`a,-b`); `order` applies to keys without a sign. A hidden field is unknown. */
export function readSort(sort: string | undefined, order: string | undefined, names: Names): SortKey[] {
  if (sort === undefined || sort.trim() === '') return [];
  const keys = sort.split(',').map((name) => name.trim());
  if (keys.length > LIMITS.list.sortKeysMax) {
    throw invalidField('sort', `takes at most ${LIMITS.list.sortKeysMax} keys`);
  }
  return keys.map((name) => {
    const key = name.replace(/^[+-]/, '');
    const field = names.field(key);
    if (field === undefined) throw invalidField('sort', `unknown field "${key}"`);
    if (!isOrdered(field.value)) throw invalidField('sort', `records cannot be sorted by "${key}"`);
    const sign = name[0] === '-' || name[0] === '+' ? name[0] : order === 'desc' ? '-' : '+';
    return sortKey(field, sign === '-');
  });
}

/** The key of a field. */
export function sortKey(field: FieldRef, isDescending: boolean): SortKey {
  const name = `${field.key}:${field.type}`;
  return { name, column: columnOf(field, R), sqlType: field.value.sqlType, field, isDescending };
}

/** The records that meet the condition, which is never null, before those that do not; the newest first. */
export function metFirst(condition: Sql, { field: fieldOf }: Names): SortKey[] {
  const met: SortKey = { name: '', column: sql`(${condition})`, sqlType: 'boolean', field: null, isDescending: true };
  return [met, sortKey(fieldOf('id') as FieldRef, true)];
}

/**
 * The `order by` clause on table `r`. Without keys, the newest come first. `isRest` means that the keys follow another
 * key.
 */
export function orderBy(keys: readonly SortKey[], isRest = false): Sql {
  if (keys.length === 0 && !isRest) return sql`r.id desc`;
  const parts = keys.map(({ field, column, isDescending }) =>
    field?.key === 'id' && field.slot === null
      ? sql`r.id ${raw(isDescending ? 'desc' : 'asc')}`
      : sql`${column} ${raw(isDescending ? 'desc' : 'asc')} nulls last`,
  );
  return join([...parts, sql`r.id asc`], ', ');
}

/** The sort keys of `r` as columns `s0`, `s1`, ..., for sorting ids without their rows. */
export function matchesColumns(keys: readonly SortKey[]): Sql {
  return join(
    keys.map(({ column }, i) => sql`, ${column} as ${identifier(`s${i}`)}`),
    '',
  );
}

/** The `order by` clause on the columns of `matchesColumns` in `h`. */
export function matchesOrder(keys: readonly SortKey[]): Sql {
  if (keys.length === 0) return sql`h.id desc`;
  const parts = keys.map(
    ({ isDescending }, i) => sql`h.${identifier(`s${i}`)} ${raw(isDescending ? 'desc' : 'asc')} nulls last`,
  );
  return join([...parts, sql`h.id asc`], ', ');
}

/** The values that a cursor contains: each sort key of `r` as text. */
export function cursorColumns(keys: readonly SortKey[]): Sql {
  if (keys.length === 0) return raw("'{}'::text[]");
  return sql`array[${join(
    keys.map(({ column }) => sql`(${column})::text`),
    ', ',
  )}]`;
}

interface Cursor {
  values: (string | null)[];
  id: string;
}

/** The cursor after a row: opaque to clients, valid for the same sort only. */
export function writeCursor(keys: readonly SortKey[], values: (string | null)[], id: string): string {
  return Buffer.from(JSON.stringify([signature(keys), values, id])).toString('base64url');
}

/** A segment of a list: a condition on `r`, and the order within. */
export interface Segment {
  condition: Sql | null;
  order: Sql;
}

/** The position after a cursor: the condition, and the first key's value. */
interface After {
  condition: Sql;
  value: string | null;
}

/**
 * The segments of a list, in order: one, or, where Postgres can then use an index on the first key, the records with a
 * value in that key and then those without.
 */
export function segmentsOf(keys: readonly SortKey[], isIndexed: boolean, after: After | null): Segment[] {
  const [first] = keys;
  const condition = after?.condition ?? null;
  if (first?.field === null) return conditionSegments(first, keys, after);
  const whole = { condition, order: orderBy(keys) };
  if (first === undefined || !isIndexed || (after === null ? !first.isDescending : after.value === null))
    return [whole];
  const { column } = first;
  const direction = raw(first.isDescending ? 'desc' : 'asc');
  const rest = orderBy(keys.slice(1), true);
  // The condition implies this, but an index scan can start only from this form.
  const bound = after && sql` and ${column} ${raw(first.isDescending ? '<=' : '>=')} ${boundTo(first, after.value)}`;
  const also = condition === null ? EMPTY : sql` and ${condition}`;
  return [
    { condition: sql`${column} is not null${bound ?? EMPTY}${also}`, order: sql`${column} ${direction}, ${rest}` },
    { condition: sql`${column} is null${also}`, order: sql`${column}, ${rest}` },
  ];
}

/** The records that meet the condition of the first key, then those that do not. */
function conditionSegments({ column }: SortKey, keys: readonly SortKey[], after: After | null): Segment[] {
  const also = after === null ? EMPTY : sql` and ${after.condition}`;
  const order = orderBy(keys.slice(1), true);
  const unmet = { condition: sql`not ${column}${also}`, order };
  return after?.value === 'false' ? [unmet] : [{ condition: sql`${column}${also}`, order }, unmet];
}

/** The condition that a row of `r` comes after the cursor; null for an empty cursor, the first page. */
export function afterCursor(keys: readonly SortKey[], text: string): After | null {
  if (text === '') return null;
  const { values, id } = readCursor(keys, text);
  if (keys.length === 0) return { condition: sql`r.id < ${id}::uuid`, value: null };
  const clauses: Sql[] = [];
  const equal: Sql[] = [];
  keys.forEach((key, i) => {
    const { column } = key;
    const value = values[i] ?? null;
    const bound = boundTo(key, value);
    // A missing value is followed only by ties; any other value is also followed by missing values.
    if (value !== null) {
      const later = sql`(${column} ${raw(key.isDescending ? '<' : '>')} ${bound} or ${column} is null)`;
      clauses.push(sql`(${join([...equal, later], ' and ')})`);
    }
    equal.push(value === null ? sql`${column} is null` : sql`${column} = ${bound}`);
  });
  clauses.push(sql`(${join([...equal, sql`r.id > ${id}::uuid`], ' and ')})`);
  return { condition: sql`(${join(clauses, ' or ')})`, value: values[0] ?? null };
}

function boundTo({ sqlType }: SortKey, value: string | null): Sql {
  return sql`${value}::text::${raw(sqlType)}`;
}

function readCursor(keys: readonly SortKey[], text: string): Cursor {
  const problem = invalidField('cursor', 'is not a cursor of this list; start again with an empty one');
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    throw problem;
  }
  if (!Array.isArray(parsed) || parsed.length !== 3 || parsed[0] !== signature(keys)) throw problem;
  const [, values, id] = parsed as [string, unknown, unknown];
  const isSound =
    typeof id === 'string' &&
    isUuid(id) &&
    Array.isArray(values) &&
    values.length === keys.length &&
    values.every((value) => value === null || (typeof value === 'string' && !value.includes('\0')));
  if (!isSound) throw problem;
  return { values, id };
}

function signature(keys: readonly SortKey[]): string {
  return keys.map(({ name, isDescending }) => `${isDescending ? '-' : '+'}${name}`).join(',');
}
