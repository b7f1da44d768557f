// SQL as values: a tagged template whose interpolations become bound parameters, except nested queries, which
// are spliced in. Names enter a statement only through `identifier`, so input never becomes SQL text.
// Also the interfaces of queries and transactions.
import { arrayLiteral } from './array-literal.ts';
import type { ByteBudget } from './byte-budget.ts';
import type { DryRun } from './dry-run.ts';

/** A piece of SQL with its bound values. */
export class Sql {
  constructor(
    readonly strings: readonly string[],
    readonly values: readonly unknown[],
    readonly plans: Plans = 'by values',
  ) {}
}

/**
 * How Postgres plans a statement. `by values`: it is kept prepared, and planned for its values at least the first five
 * times. `once`: it is planned once for any values. `each time`: it is not kept.
 */
export type Plans = 'by values' | 'once' | 'each time';

/**
 * A statement that finds few rows by index for any values. With many tenants it runs only a few times on a connection,
 * so that most of its runs would be spent on planning. Has no effect in a transaction.
 */
export function plannedOnce({ strings, values }: Sql): Sql {
  return new Sql(strings, values, 'once');
}

/** A statement whose result is cached, so that it seldom runs again on the same connection: it takes no memory there. */
export function notKept({ strings, values }: Sql): Sql {
  return new Sql(strings, values, 'each time');
}

/** Builds a query: a nested `Sql` is spliced in, anything else is bound as a parameter. */
export function sql(strings: TemplateStringsArray, ...values: unknown[]): Sql {
  return new Sql(strings, values);
}

/** A quoted, dot-qualified name. Names come from the catalog, never from a request. */
export function identifier(...names: string[]): Sql {
  return raw(names.map((name) => `"${name.replaceAll('"', '""')}"`).join('.'));
}

/** SQL text written in this code base. Never pass it input of a caller. */
export function raw(text: string): Sql {
  return new Sql([text], []);
}

/** A quoted string constant, for values that cannot be bound or are the same in every execution. */
export function literal(value: string): Sql {
  return raw(`'${value.replaceAll("'", "''")}'`);
}

/** Joins pieces with a separator: `join([sql`a`, sql`b`], ' and ')`. */
export function join(parts: readonly Sql[], separator: string): Sql {
  if (parts.length === 0) return raw('');
  const strings = ['', ...Array.from({ length: parts.length - 1 }, () => separator), ''];
  return new Sql(strings, parts);
}

export const EMPTY = raw('');

/** A value as jsonb; undefined as null. */
export function jsonb(value: unknown): Sql {
  return sql`${value === undefined ? null : JSON.stringify(value)}::text::jsonb`;
}

/**
 * For a transaction whose loss in a server crash only means repeated work: its commit does not wait for the disk.
 * Other transactions are not affected.
 */
export const ASYNC_COMMIT = raw(`set_config('synchronous_commit', 'off', true)`);

/**
 * For a transaction whose statements cost more to plan than to run: each connection plans them once. Only
 * for statements that find few rows by index for any parameters. While a table is empty all plans cost the same, but the
 * plan must also suit the full table: so sequential scans and explicit sorts are off. Bitmap scans are off
 * because plain index scans mark dead entries, which later scans then skip; a bitmap scan visits them until vacuum.
 */
export const GENERIC_PLANS = raw(
  `set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true)
    || set_config('enable_sort', 'off', true) || set_config('enable_bitmapscan', 'off', true)`,
);

/**
 * For a transaction whose statements find few rows by index: Postgres would rather read all of a table that it thinks is small. It
 * does not know what it costs to unpack large values.
 */
export const NO_TABLE_SCANS = raw(`set_config('enable_seqscan', 'off', true)`);

const parts = new WeakMap<object, Map<string, Sql>>();

/** A part of statements that depends on `owner` alone, such as an entity's definition: built and compiled once. It must not bind values. */
export function cachedPart(owner: object, name: string, build: () => Sql): Sql {
  const known = parts.get(owner) ?? new Map<string, Sql>();
  parts.set(owner, known);
  let part = known.get(name);
  if (part === undefined) {
    const { text, parameters } = compile(build());
    if (parameters.length > 0) throw new Error('a cached part of a statement must not bind values');
    part = raw(text);
    known.set(name, part);
  }
  return part;
}

/**
 * Rows as input of a statement, with the type of each column. A single row becomes `values`: Postgres then knows the
 * row count and reuses the plan; for arrays of unknown length it would plan each time.
 */
export function inputRows(types: readonly string[], rows: readonly (readonly unknown[])[]): Sql {
  const [only] = rows;
  if (rows.length === 1 && only !== undefined) {
    const last = types.length - 1;
    return new Sql(['values (', ...types.map((type, i) => `::${type}${i === last ? ')' : ', '}`)], only);
  }
  const columns = types.map((type, i) => sql`${arrayLiteral(rows.map((row) => row[i]))}::${raw(`${type}[]`)}`);
  return sql`select * from unnest(${join(columns, ', ')})`;
}

/** Flattens a query to its text with `$1`-style placeholders and the values for them, in order. */
export function compile(query: Sql): { text: string; parameters: unknown[] } {
  const parameters: unknown[] = [];
  let text = '';
  const visit = (node: Sql): void => {
    for (let i = 0; i < node.strings.length; i++) {
      text += node.strings[i];
      if (i >= node.values.length) continue;
      const value = node.values[i];
      if (value instanceof Sql) {
        visit(value);
        continue;
      }
      parameters.push(value);
      text += `$${parameters.length}`;
    }
  };
  visit(query);
  return { text, parameters };
}

/** Queries on a pool or in a transaction. */
export interface Queries {
  /** Set when all of it is rolled back in the end. */
  readonly dryRun?: DryRun;
  /** All rows. Rejects with the budget's refusal when they need more bytes; in a transaction, that rolls it back. */
  rows<T>(query: Sql, budget?: ByteBudget): Promise<T[]>;
  /** The first row, or undefined. */
  first<T>(query: Sql): Promise<T | undefined>;
}

/** A transaction. Every query in it must be awaited. */
export interface Tx extends Queries {
  readonly transaction: true;
}
