// One page of a list: the statement that gives its rows and the entity's counters in one snapshot.
// An index on a field holds missing values at its end, and read backwards at its beginning, where no
// list wants them; so a descending list, and any that goes on from a cursor, is read in two parts:
// first the records with a value, then those without. Contract: decisions#lists, decisions#order.
import type { App } from '../../app.ts';
import { indexKinds } from '../../entities/indexes.ts';
import { invalidField } from '../../errors.ts';
import { EMPTY, join, type Sql, sql } from '../../runtime/sql.ts';
import type { AccessScope } from '../access-scope.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';
import {
  afterCursor,
  cursorColumns,
  hitsColumns,
  hitsOrder,
  orderBy,
  type Part,
  partsOf,
  type SortKey,
} from './order.ts';
import { type Counters, countersOf } from './total.ts';

/** Where the page lies: by its number, or after a cursor (empty for the first page). */
export interface Paging {
  page: number;
  limit: number;
  cursor: string | undefined;
}

export type PageRow = RecordRow & { sort_values: (string | null)[] };

/** The page's rows and one more where there is one (to know whether another page follows), and the counters. */
export async function fetchPage(
  app: App,
  scope: AccessScope,
  where: Sql,
  sort: readonly SortKey[],
  { page, limit, cursor }: Paging,
): Promise<{ rows: PageRow[]; counters: Counters }> {
  const { after, offset, columns } = placeOf(sort, { page, limit, cursor });
  const parts = partsOf(sort, isIndexed(scope, sort[0]), after);
  const rows = await app.db.rows<PageRow & Counters>(sql`
    select c.n, c.v, r.*
    from (${countersOf(scope.entity)}) as c
    left join lateral (${pageQuery(scope, where, parts, columns, limit + 1, offset)}) as r on true`);
  const { n = 0, v = 0 } = rows[0] ?? {};
  // Without a record the join still gives one row, for its counters.
  return { rows: rows.filter((row) => row.id !== null), counters: { n, v } };
}

/**
 * The same page and the total, from the ids of all rows that meet `where`, found once. For conditions that few rows
 * meet, or nobody knows how many: Postgres, told of the page's limit, would rather walk the records in their order
 * and may walk nearly all of them to fill the page.
 */
export async function fetchHits(
  app: App,
  scope: AccessScope,
  where: Sql,
  sort: readonly SortKey[],
  paging: Paging,
): Promise<{ rows: PageRow[]; counters: Counters; total: number }> {
  const { table } = scope.entity;
  const { after, offset, columns } = placeOf(sort, paging);
  const picked =
    after === null
      ? sql`select h.id from hits as h order by ${hitsOrder(sort)}`
      : sql`select r.id from hits as h join ${table} as r using (id) where ${after.condition} order by ${orderBy(sort)}`;
  const rows = await app.db.rows<PageRow & Counters & { total: number }>(sql`
    with hits as materialized (select r.id${hitsColumns(sort)} from ${table} as r where ${where})
    select c.n, c.v, (select count(*) from hits) as total, p.*
    from (${countersOf(scope.entity)}) as c
    left join lateral (
      select ${columns}
      from (
        select k.id, row_number() over () as place
        from (${picked} limit ${paging.limit + 1}::bigint offset ${offset}::bigint) as k
      ) as k
      join ${table} as r using (id)
      order by k.place
    ) as p on true`);
  const { n = 0, v = 0, total = 0 } = rows[0] ?? {};
  return { rows: rows.filter((row) => row.id !== null), counters: { n, v }, total };
}

/** Where a page begins, and what it selects: with a cursor also the values that the next one is made of. */
function placeOf(sort: readonly SortKey[], { page, limit, cursor }: Paging) {
  if (cursor === undefined) return { after: null, offset: (page - 1) * limit, columns: RECORD_COLUMNS };
  if (page !== 1) throw invalidField('page', 'cannot be combined with a cursor');
  const columns = sql`${RECORD_COLUMNS}, ${cursorColumns(sort)} as sort_values`;
  return { after: afterCursor(sort, cursor), offset: 0, columns };
}

function isIndexed({ entity }: AccessScope, first: SortKey | undefined): boolean {
  const field = first?.field.slot == null ? undefined : entity.byKey.get(first.field.key);
  return field !== undefined && indexKinds(field).length > 0;
}

/** Past this offset the page's ids are picked first: the values of skipped rows are then never read. */
const OFFSET_BY_ID = 100;

function pageQuery(
  scope: AccessScope,
  where: Sql,
  parts: readonly Part[],
  columns: Sql,
  limit: number,
  offset: number,
): Sql {
  const { table } = scope.entity;
  if (offset < OFFSET_BY_ID) return partsQuery(table, where, parts, columns, limit, offset);
  return sql`
    select ${columns}
    from (
      select k.id, row_number() over () as place
      from (${partsQuery(table, where, parts, sql`r.id`, limit, offset)}) as k
    ) as k
    join ${table} as r using (id)
    order by k.place`;
}

/** The parts one after the other. Each has a limit, so Postgres neither shares them out to workers nor mixes them. */
function partsQuery(table: Sql, where: Sql, parts: readonly Part[], columns: Sql, limit: number, offset: number): Sql {
  const within = sql`limit ${limit}::bigint offset ${offset}::bigint`;
  const upTo = parts.length === 1 ? within : sql`limit ${limit + offset}::bigint`;
  const queries = parts.map(
    ({ condition, order }) => sql`(
      select ${columns} from ${table} as r
      where ${where}${condition === null ? EMPTY : sql` and ${condition}`}
      order by ${order} ${upTo})`,
  );
  return parts.length === 1 ? (queries[0] as Sql) : sql`${join(queries, ' union all ')} ${within}`;
}
