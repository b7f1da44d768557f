// One page of a list, with the entity's counters in the same snapshot. Lists end with missing values, and indexes have nulls
// last, so a backward scan returns nulls first. A descending list, and a list that continues from a cursor, is therefore read in
// two segments: first the records with a value, then the records without.
// Contract: decisions#lists, decisions#order.
import type { App } from '../../app.ts';
import type { AccessScope } from '../../entities/access-scope.ts';
import { invalidField } from '../../errors.ts';
import { toSql } from '../../expression/to-sql.ts';
import type { ByteBudget } from '../../runtime/byte-budget.ts';
import { EMPTY, join, plannedOnce, type Sql, sql } from '../../runtime/sql.ts';
import type { RecordRow } from '../row.ts';
import { cursorColumns, readCursor } from './cursor.ts';
import type { ListPlan } from './list-plan.ts';
import { afterCursor, matchesColumns, matchesOrder, type Order, orderBy, type Segment, segmentsOf } from './order.ts';
import { readShared } from './shared-read.ts';
import { type Counters, countersOf } from './total.ts';

/** The condition that every record meets. */
export const ALL = sql`true`;

/** The page, by number or after a cursor (empty for the first page). */
export interface Paging {
  page: number;
  limit: number;
  cursor: string | undefined;
  /** Whether each row must contain the values for the next cursor, even on a numbered page. */
  isCursorWanted: boolean;
  /** The columns of each row; they make a RecordRow. */
  columns: Sql;
  /** The budget for the bytes of the page's rows. */
  received: ByteBudget;
}

export type PageRow = RecordRow & { sort_values: (string | null)[] };
type MatchRow = PageRow & Counters & { total: number; met: number };

/**
 * The page's rows, plus one when another page follows, and the counters. Scans the records in order. A numbered page that an
 * index serves whole is planned once: planning it for its values takes twice as long as reading it.
 */
export async function fetchPage(
  app: App,
  scope: AccessScope,
  where: Sql,
  { order, scan, whole }: ListPlan,
  paging: Paging,
): Promise<{ rows: PageRow[]; counters: Counters }> {
  const { limit, received } = paging;
  const { after, offset, columns } = await pageStart(app, scope, where, order, paging);
  const isPlannedOnce = whole !== null && after === null;
  const segments = segmentsOf(order, scan, after, isPlannedOnce ? whole.lead : []);
  const condition = isPlannedOnce ? (whole.bounds === null ? ALL : toSql(whole.bounds, sql`r`)) : where;
  const page = sql`
    select c.n, c.v, r.*
    from (${countersOf(scope.entity)}) as c
    left join lateral (${pageQuery(scope, condition, segments, columns, limit + 1, offset)}) as r on true`;
  const query = isPlannedOnce ? plannedOnce(page) : page;
  const rows = await readShared<PageRow & Counters>(app.db, scope.entity, query, received);
  const { n = 0, v = 0 } = rows[0] ?? {};
  // Without records the join still returns one row, with the counters.
  return { rows: rows.filter((row) => row.id !== null), counters: { n, v } };
}

/**
 * The same page and the total, from the ids of all matches; `met` are the ids that meet the condition of the first key. For
 * conditions that match few records, or an unknown number: because of the page's limit, Postgres would scan the records in
 * order, perhaps nearly all of them. The statement is not shared, which saves 12 %: searches seldom ask for the same words at
 * once.
 */
export async function fetchFromMatches(
  app: App,
  scope: AccessScope,
  where: Sql,
  order: Order,
  paging: Paging,
  isSearch: boolean,
): Promise<{ rows: PageRow[]; counters: Counters; total: number; met: number }> {
  const { table } = scope.entity;
  const { after, offset, columns } = await pageStart(app, scope, where, order, paging);
  const picked =
    after === null
      ? sql`select h.id from matches as h order by ${matchesOrder(order)}`
      : sql`select r.id from matches as h join ${table} as r using (id) where ${afterCursor(order, after)} order by ${orderBy(order)}`;
  const query = sql`
    with matches as materialized (select r.id${matchesColumns(order)} from ${table} as r where ${where})
    select c.n, c.v, t.*, p.*
    from (${countersOf(scope.entity)}) as c
    cross join (select count(*) as total, ${order.deciding[0]?.field === null ? sql`count(*) filter (where h.s0)` : sql`0`} as met from matches as h) as t
    left join lateral (
      select ${columns}
      from (
        select k.id, row_number() over () as position
        from (${picked} limit ${paging.limit + 1}::bigint offset ${offset}::bigint) as k
      ) as k
      join ${table} as r using (id)
      order by k.position
    ) as p on true`;
  const rows = isSearch
    ? await app.db.rows<MatchRow>(query, paging.received)
    : await readShared<MatchRow>(app.db, scope.entity, query, paging.received);
  const { n = 0, v = 0, total = 0, met = 0 } = rows[0] ?? {};
  return { rows: rows.filter((row) => row.id !== null), counters: { n, v }, total, met };
}

/** The page's start and its columns. */
async function pageStart(
  app: App,
  { entity }: AccessScope,
  where: Sql,
  order: Order,
  { page, limit, cursor, isCursorWanted, columns: own }: Paging,
) {
  const columns = isCursorWanted ? sql`${own}, ${cursorColumns(order)} as sort_values` : own;
  if (cursor === undefined) return { after: null, offset: (page - 1) * limit, columns };
  if (page !== 1) throw invalidField('page', 'cannot be combined with a cursor');
  const after = await readCursor(order, cursor, async (id) => {
    const row = await app.db.first<Pick<PageRow, 'sort_values'>>(sql`
      select ${cursorColumns(order)} as sort_values from ${entity.table} as r where r.id = ${id}::uuid and ${where}`);
    return row?.sort_values;
  });
  return { after, offset: 0, columns };
}

/** From this offset on, ids are selected first, so that the data of skipped rows is not read. */
const OFFSET_BY_ID = 100;

function pageQuery(
  scope: AccessScope,
  where: Sql,
  segments: readonly Segment[],
  columns: Sql,
  limit: number,
  offset: number,
): Sql {
  const { table } = scope.entity;
  if (offset < OFFSET_BY_ID) return segmentsQuery(table, where, segments, columns, limit, offset);
  return sql`
    select ${columns}
    from (
      select k.id, row_number() over () as position
      from (${segmentsQuery(table, where, segments, sql`r.id`, limit, offset)}) as k
    ) as k
    join ${table} as r using (id)
    order by k.position`;
}

/** The segments in order. A limit on each segment keeps Postgres from running them in parallel and mixing their rows. */
function segmentsQuery(
  table: Sql,
  where: Sql,
  segments: readonly Segment[],
  columns: Sql,
  limit: number,
  offset: number,
): Sql {
  const within = sql`limit ${limit}::bigint offset ${offset}::bigint`;
  const upTo = segments.length === 1 ? within : sql`limit ${limit + offset}::bigint`;
  const queries = segments.map(
    ({ condition, order }) => sql`(
      select ${columns} from ${table} as r
      where ${where}${condition === null ? EMPTY : sql` and ${condition}`}
      order by ${order} ${upTo})`,
  );
  return segments.length === 1 ? (queries[0] as Sql) : sql`${join(queries, ' union all ')} ${within}`;
}
