// Sort keys, compiled to `order by` clauses and to the conditions of keyset paging. Missing values come last in
// either direction; ties are sorted by id, in the direction of the last key; the default is newest first.
// Contract: decisions#order.
import type { Entity } from '../../entities/field.ts';
import { invalidField } from '../../errors.ts';
import { type FieldRef, type Names, SYSTEM_FIELDS, type SystemKey } from '../../expression/ast.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { isOrdered } from '../../expression/value-types.ts';
import { LIMITS } from '../../limits.ts';
import { EMPTY, identifier, join, raw, type Sql, sql } from '../../runtime/sql.ts';

export interface SortKey {
  /** The key's name in a cursor. */
  name: string;
  /** On table `r`. */
  column: Sql;
  sqlType: string;
  /** Null for a condition. */
  field: FieldRef | null;
  isDescending: boolean;
}

const R = sql`r`;

/**
 * Parses `sort` (`a,-b`). `order` is the direction of keys without a sign; without `sort`, the newest records come first. A
 * hidden field is unknown.
 */
export function readSort(sort: string | undefined, order: string | undefined, names: Names): readonly SortKey[] {
  if (sort === undefined || sort.trim() === '') return NEWEST_FIRST;
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

/**
 * Sort keys that put the records that meet the condition first, then the others; the newest first in each part. The condition
 * is never null.
 */
export function metFirst(condition: Sql): SortKey[] {
  const met: SortKey = { name: '', column: sql`(${condition})`, sqlType: 'boolean', field: null, isDescending: true };
  return [met, ...NEWEST_FIRST];
}

/** The order of a list without `sort`. */
export const NEWEST_FIRST: readonly SortKey[] = [sortKey(SYSTEM_FIELDS.createdAt, true)];

/** The order of a list. Ties are sorted by id, in the direction of the last key. */
export interface Order {
  /** The requested keys, at least one; a cursor contains their values. */
  keys: readonly SortKey[];
  /** The first keys, as many as decide the order together with the id. */
  deciding: readonly SortKey[];
  isIdDescending: boolean;
}

/** An order in which all keys decide. */
export function orderOfKeys(keys: readonly SortKey[]): Order {
  return { keys, deciding: keys, isIdDescending: keys.at(-1)?.isDescending === true };
}

/**
 * The order of an entity's records by these keys. The id alone replaces a key that is an id, and also a last `createdAt` if the
 * entity's ids are in the order of `createdAt`.
 */
export function orderIn({ isInIdOrder }: Pick<Entity, 'isInIdOrder'>, keys: readonly SortKey[]): Order {
  const byId = keys.findIndex((key) => isSystem(key, 'id'));
  const used = byId < 0 ? keys : keys.slice(0, byId + 1);
  const order = orderOfKeys(used);
  const last = used.at(-1);
  const isImplied = last !== undefined && (byId >= 0 || (isInIdOrder && isSystem(last, 'createdAt')));
  return isImplied ? { ...order, deciding: used.slice(0, -1) } : order;
}

function isSystem({ field }: SortKey, key: SystemKey): boolean {
  return field?.key === key && field.slot === null;
}

/** The `order by` clause on table `r`. */
export function orderBy(order: Order): Sql {
  return join([...order.deciding.map((key) => ordered(key, 'nulls last')), ties(order)], ', ');
}

function ordered({ column, isDescending }: SortKey, nulls: 'nulls first' | 'nulls last'): Sql {
  return sql`${column} ${raw(isDescending ? 'desc' : 'asc')} ${raw(nulls)}`;
}

function ties({ isIdDescending }: Order): Sql {
  return isIdDescending ? sql`r.id desc` : sql`r.id`;
}

/** The sort keys of `r` as columns `s0`, `s1`, ..., for sorting ids without their rows. */
export function matchesColumns({ deciding }: Order): Sql {
  return join(
    deciding.map(({ column }, i) => sql`, ${column} as ${identifier(`s${i}`)}`),
    '',
  );
}

/** The `order by` clause on the columns of `matchesColumns` in `h`. */
export function matchesOrder({ deciding, isIdDescending }: Order): Sql {
  const parts = deciding.map(
    ({ isDescending }, i) => sql`h.${identifier(`s${i}`)} ${raw(isDescending ? 'desc' : 'asc')} nulls last`,
  );
  return join([...parts, isIdDescending ? sql`h.id desc` : sql`h.id`], ', ');
}

/** The start of a page: after the record with these values of the keys. */
export interface Cursor {
  values: (string | null)[];
  id: string;
}

/** A segment of a list: a condition on `r`, and the order within. */
export interface Segment {
  condition: Sql | null;
  order: Sql;
}

/**
 * How a scan of an index returns the records in an order: whole, forward or backward, or sorted by the first key only (`by
 * first key`). Indexes have missing values last, so a backward scan returns them first.
 */
export type Scan = 'forward' | 'backward' | 'by first key';

/**
 * The segments of a list, in order; Postgres can read each from the index without sorting. In a backward scan the records
 * without a value of the first key are a segment of their own; the other keys must then always have a value. After a cursor
 * there is one segment for the ties of its record and, for each key from the last to the first, one for the later values and
 * one for the missing values. Each such condition starts the scan where the segment starts; a single condition for all segments
 * would be evaluated for each record before it. `lead` are index columns that have the same value in all records of the list.
 */
export function segmentsOf(
  order: Order,
  scan: Scan | null,
  after: Cursor | null,
  lead: readonly SortKey[] = [],
): Segment[] {
  const { deciding } = order;
  const [first] = deciding;
  if (first?.field === null) return conditionSegments(first, order, after);
  if (scan === 'by first key') return firstKeySegments(order, after);
  if (scan === null) return [{ condition: after && afterCursor(order, after), order: orderBy(order) }];
  const nulls = scan === 'forward' ? 'nulls last' : 'nulls first';
  const by = join([...[...lead, ...deciding].map((key) => ordered(key, nulls)), ties(order)], ', ');
  if (after !== null) return laterConditions(order, after).map((condition) => ({ condition, order: by }));
  if (first === undefined || scan === 'forward' || !mayBeMissing(first)) return [{ condition: null, order: by }];
  return [sql`${first.column} is not null`, sql`${first.column} is null`].map((condition) => ({
    condition,
    order: by,
  }));
}

/** Whether values of the key may be missing. System times never are. */
function mayBeMissing({ field }: SortKey): boolean {
  return field === null || field.slot !== null || field.value.sqlType !== 'timestamptz';
}

/** Segments by the first key's values, which come from the index; Postgres sorts the records with equal values. */
function firstKeySegments(order: Order, after: Cursor | null): Segment[] {
  const first = order.deciding[0] as SortKey;
  const value = after?.values[0] ?? null;
  const condition = after && afterCursor(order, after);
  if (after === null ? !first.isDescending : value === null) return [{ condition, order: orderBy(order) }];
  const { column } = first;
  const also = condition === null ? EMPTY : sql` and ${condition}`;
  // The cursor's condition implies this bound, but an index scan can start only from a bound in this form.
  const bound = after && sql` and ${column} ${raw(first.isDescending ? '<=' : '>=')} ${boundTo(first, value)}`;
  const rest = orderBy({ ...order, deciding: order.deciding.slice(1) });
  return [
    {
      condition: sql`${column} is not null${bound ?? EMPTY}${also}`,
      order: sql`${column} ${raw(first.isDescending ? 'desc' : 'asc')}, ${rest}`,
    },
    { condition: sql`${column} is null${also}`, order: sql`${column}, ${rest}` },
  ];
}

/** The records that meet the condition of the first key, then those that do not. */
function conditionSegments({ column }: SortKey, order: Order, after: Cursor | null): Segment[] {
  const also = after === null ? EMPTY : sql` and ${afterCursor(order, after)}`;
  const by = orderBy({ ...order, deciding: order.deciding.slice(1) });
  const unmet = { condition: sql`not ${column}${also}`, order: by };
  return after?.values[0] === 'false' ? [unmet] : [{ condition: sql`${column}${also}`, order: by }, unmet];
}

/** The condition that a row of `r` comes after the cursor. */
export function afterCursor(order: Order, after: Cursor): Sql {
  const conditions = laterConditions(order, after);
  return conditions.length === 1 ? (conditions[0] as Sql) : sql`(${join(conditions, ' or ')})`;
}

/** The conditions of the rows after the cursor, in the order of the rows. They are disjoint: no row meets two of them. */
function laterConditions({ deciding, isIdDescending }: Order, { values, id }: Cursor): Sql[] {
  const equal = deciding.map((key, i) => {
    const value = values[i] ?? null;
    return value === null ? sql`${key.column} is null` : sql`${key.column} = ${boundTo(key, value)}`;
  });
  const conditions = [join([...equal, sql`r.id ${raw(isIdDescending ? '<' : '>')} ${id}::uuid`], ' and ')];
  for (const [i, key] of [...deciding.entries()].reverse()) {
    const value = values[i] ?? null;
    // A missing value is followed only by ties; any other value is also followed by missing values.
    if (value === null) continue;
    const before = equal.slice(0, i);
    const { column, isDescending } = key;
    conditions.push(join([...before, sql`${column} ${raw(isDescending ? '<' : '>')} ${boundTo(key, value)}`], ' and '));
    if (mayBeMissing(key)) conditions.push(join([...before, sql`${column} is null`], ' and '));
  }
  return conditions.map((condition) => sql`(${condition})`);
}

function boundTo({ sqlType }: SortKey, value: string | null): Sql {
  return sql`${value}::text::${raw(sqlType)}`;
}
