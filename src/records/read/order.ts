// Sort keys and what pages need of them: the order clause, and the condition "after this row" for
// keyset paging. Records without a value come last whichever the direction; ties by id; without
// `sort`, newest first. Contract: decisions#order.
import { invalidField } from '../../errors.ts';
import type { FieldRef, Names } from '../../expression/ast.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { isOrdered } from '../../expression/value-types.ts';
import { LIMITS } from '../../limits.ts';
import { isUuid } from '../../runtime/ids.ts';
import { EMPTY, identifier, join, raw, type Sql, sql } from '../../runtime/sql.ts';

export interface SortKey {
  field: FieldRef;
  isDescending: boolean;
}

const R = sql`r`;

/** Parses `sort` (`a,-b`); `order` applies to keys without a sign. A hidden field is an unknown one. */
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
    return { field, isDescending: sign === '-' };
  });
}

/** The order clause, of table `r`: newest first without keys, unless those are the `rest` after another. */
export function orderBy(keys: readonly SortKey[], isRest = false): Sql {
  if (keys.length === 0 && !isRest) return sql`r.id desc`;
  const parts = keys.map(({ field, isDescending }) =>
    field.key === 'id' && field.slot === null
      ? sql`r.id ${raw(isDescending ? 'desc' : 'asc')}`
      : sql`${columnOf(field, R)} ${raw(isDescending ? 'desc' : 'asc')} nulls last`,
  );
  return join([...parts, sql`r.id asc`], ', ');
}

/** What sorting a set of ids apart from their rows needs: each key's value of `r`, as further columns `s0`, `s1`, ... */
export function hitsColumns(keys: readonly SortKey[]): Sql {
  return join(
    keys.map(({ field }, i) => sql`, ${columnOf(field, R)} as ${identifier(`s${i}`)}`),
    '',
  );
}

/** The order clause over those columns of `h`. */
export function hitsOrder(keys: readonly SortKey[]): Sql {
  if (keys.length === 0) return sql`h.id desc`;
  const parts = keys.map(
    ({ isDescending }, i) => sql`h.${identifier(`s${i}`)} ${raw(isDescending ? 'desc' : 'asc')} nulls last`,
  );
  return join([...parts, sql`h.id asc`], ', ');
}

/** Columns that a cursor carries: each key's value as text, of table `r`. */
export function cursorColumns(keys: readonly SortKey[]): Sql {
  if (keys.length === 0) return raw("'{}'::text[]");
  return sql`array[${join(
    keys.map(({ field }) => sql`(${columnOf(field, R)})::text`),
    ', ',
  )}]`;
}

interface Cursor {
  values: (string | null)[];
  id: string;
}

/** Where a page ended, as text for the client: opaque, and good for the same sort only. */
export function writeCursor(keys: readonly SortKey[], values: (string | null)[], id: string): string {
  return Buffer.from(JSON.stringify([signature(keys), values, id])).toString('base64url');
}

/** A stretch of a list: a further condition on `r`, and the order within. */
export interface Part {
  condition: Sql | null;
  order: Sql;
}

/** Where a list goes on: the condition, and the first key's value there. */
interface After {
  condition: Sql;
  value: string | null;
}

/**
 * The stretches that make up a list, in turn: one, or those with and those without a value in the first key, when that
 * lets Postgres read an index on it.
 */
export function partsOf(keys: readonly SortKey[], isIndexed: boolean, after: After | null): Part[] {
  const [first] = keys;
  const condition = after?.condition ?? null;
  const whole = { condition, order: orderBy(keys) };
  if (first === undefined || !isIndexed || (after === null ? !first.isDescending : after.value === null))
    return [whole];
  const column = columnOf(first.field, R);
  const direction = raw(first.isDescending ? 'desc' : 'asc');
  const rest = orderBy(keys.slice(1), true);
  // The bound repeats what the condition says, in a form that an index can be entered by.
  const bound = after && sql` and ${column} ${raw(first.isDescending ? '<=' : '>=')} ${boundTo(first, after.value)}`;
  const also = condition === null ? EMPTY : sql` and ${condition}`;
  return [
    { condition: sql`${column} is not null${bound ?? EMPTY}${also}`, order: sql`${column} ${direction}, ${rest}` },
    { condition: sql`${column} is null${also}`, order: sql`${column}, ${rest}` },
  ];
}

/** The condition that a row of `r` comes after the cursor; null for the first page (an empty cursor). */
export function afterCursor(keys: readonly SortKey[], text: string): After | null {
  if (text === '') return null;
  const { values, id } = readCursor(keys, text);
  if (keys.length === 0) return { condition: sql`r.id < ${id}::uuid`, value: null };
  const clauses: Sql[] = [];
  const equal: Sql[] = [];
  keys.forEach((key, i) => {
    const column = columnOf(key.field, R);
    const value = values[i] ?? null;
    const bound = boundTo(key, value);
    // After a missing value come only ties; after any other also those without a value.
    if (value !== null) {
      const later = sql`(${column} ${raw(key.isDescending ? '<' : '>')} ${bound} or ${column} is null)`;
      clauses.push(sql`(${join([...equal, later], ' and ')})`);
    }
    equal.push(value === null ? sql`${column} is null` : sql`${column} = ${bound}`);
  });
  clauses.push(sql`(${join([...equal, sql`r.id > ${id}::uuid`], ' and ')})`);
  return { condition: sql`(${join(clauses, ' or ')})`, value: values[0] ?? null };
}

function boundTo({ field }: SortKey, value: string | null): Sql {
  return sql`${value}::text::${raw(field.value.sqlType)}`;
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
  return keys.map(({ field, isDescending }) => `${isDescending ? '-' : '+'}${field.key}:${field.type}`).join(',');
}
