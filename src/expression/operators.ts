// The operators of the expression language, each implemented twice: in memory for a value, and in SQL for a
// column. The two agree on every value, which test/agreement.test.ts checks. A stored null matches only
// operators with `matchesNull`. Contract: decisions#expressions.

import { join, raw, type Sql, sql } from '../runtime/sql.ts';
import { foldCase, foldingTranslation, includesText } from './case-folding.ts';
import { isOrdered, type Operator, type Value, type ValueType } from './value-types.ts';

interface OperatorSpec {
  /** Whether a missing value matches. */
  matchesNull: boolean;
  /** Whether a stored value, never null, matches. */
  matches(type: ValueType, stored: unknown, values: readonly Value[]): boolean;
  /** `matches` in SQL. For a missing value that does not match, it may be null instead of false. */
  condition(type: ValueType, column: Sql, values: readonly Value[]): Sql;
  /** The operator that matches exactly the values that this one does not, null included. */
  opposite?: Operator;
}

export const OPERATORS: Readonly<Record<Operator, OperatorSpec>> = {
  '=': { ...comparison('=', (order) => order === 0), opposite: '!=' },
  '!=': {
    matchesNull: true,
    matches: (type, stored, [value = '']) => type.compare(stored, value) !== 0,
    condition: (type, column, [value = '']) => sql`${column} is distinct from ${bound(type, value)}`,
    opposite: '=',
  },
  '<': comparison('<', (order) => order < 0),
  '>': comparison('>', (order) => order > 0),
  '<=': comparison('<=', (order) => order <= 0),
  '>=': comparison('>=', (order) => order >= 0),
  in: {
    matchesNull: false,
    matches: (type, stored, values) => values.some((value) => type.compare(stored, value) === 0),
    condition: (type, column, values) => {
      const list = values.map((value) => bound(type, value));
      return list.length === 0 ? raw('false') : sql`${column} in (${join(list, ', ')})`;
    },
  },
  contains: {
    matchesNull: false,
    matches: (_, stored, [value = '']) =>
      Array.isArray(stored) ? stored.includes(value) : includesText(foldCase(String(stored)), foldCase(String(value))),
    condition: (type, column, [value = '']) =>
      isOrdered(type) ? containsText(column, String(value)) : sql`${column} @> jsonb_build_array(${value}::text)`,
  },
  startsWith: {
    matchesNull: false,
    matches: (_, stored, [value = '']) => String(stored).startsWith(String(value)),
    condition: (_, column, [value = '']) => startsWith(column, String(value)),
  },
  endsWith: {
    matchesNull: false,
    matches: (_, stored, [value = '']) => String(stored).endsWith(String(value)),
    condition: (_, column, [value = '']) =>
      sql`right(${column}, ${[...String(value)].length}::integer) = ${value}::text`,
  },
  null: {
    matchesNull: true,
    matches: () => false,
    condition: (_, column) => sql`${column} is null`,
    opposite: 'not null',
  },
  'not null': {
    matchesNull: false,
    matches: () => true,
    condition: (_, column) => sql`${column} is not null`,
    opposite: 'null',
  },
};

function comparison(symbol: '=' | '<' | '>' | '<=' | '>=', accepts: (order: number) => boolean): OperatorSpec {
  return {
    matchesNull: false,
    matches: (type, stored, [value = '']) => accepts(type.compare(stored, value)),
    condition: (type, column, [value = '']) => sql`${column} ${raw(symbol)} ${bound(type, value)}`,
  };
}

// Numbers are bound as text: the driver would send a double, and numeric is exact.
function bound({ sqlType }: ValueType, value: Value): Sql {
  return sql`${sqlType === 'numeric' ? String(value) : value}::${raw(sqlType)}`;
}

function containsText(column: Sql, value: string): Sql {
  const folded = foldCase(value);
  const { from, to } = foldingTranslation(folded);
  const searched = from === '' ? column : sql`translate(${column}, ${from}::text, ${to}::text)`;
  return sql`strpos(${searched}, ${folded}::text) > 0`;
}

/** A range rather than a pattern: an index can serve it, and nothing needs escaping. Relies on code point order. */
function startsWith(column: Sql, prefix: string): Sql {
  const end = successor(prefix);
  const from = sql`${column} >= ${prefix}::text`;
  return end === undefined ? from : sql`(${from} and ${column} < ${end}::text)`;
}

/** The first string after all that begin with `prefix`; undefined when there is none. */
function successor(prefix: string): string | undefined {
  const points = Array.from(prefix, (letter) => letter.codePointAt(0) ?? 0);
  while (points.at(-1) === 0x10ffff) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}
