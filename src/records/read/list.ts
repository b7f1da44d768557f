// Lists records: filters, search, sorting, pages by number or cursor, and an exact total. One statement returns the page
// together with the entity's counters; for a condition that may match few records, it returns the page together with its total.
// Contract: interface#list, decisions#lists.
import { rowsOfPage } from '../../access/bot-limits.ts';
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeFor } from '../../entities/access-scope.ts';
import type { Field } from '../../entities/field.ts';
import { searchCondition } from '../../entities/search-condition.ts';
import { invalid, invalidField } from '../../errors.ts';
import {
  and,
  CONDITION_MAX_COMPARISONS,
  canonicalKey,
  type Expression,
  relationKeys,
  sizeOf,
} from '../../expression/ast.ts';
import { equals, parseExpression } from '../../expression/parse.ts';
import { toSql } from '../../expression/to-sql.ts';
import { receivedBudget, sized } from '../../http/bounded-response.ts';
import { LIMITS } from '../../limits.ts';
import type { ByteBudget } from '../../runtime/byte-budget.ts';
import { giveWayToRead } from '../../runtime/event-loop.ts';
import { join, type Sql, sql } from '../../runtime/sql.ts';
import { currentWork } from '../../runtime/work.ts';
import { countRead } from '../../usage/tally.ts';
import type { RecordPage } from '../record.ts';
import { columnsOf, etagOf, RECORD_COLUMNS, shape } from '../row.ts';
import { writeCursor } from './cursor.ts';
import { type ListPlan, planList } from './list-plan.ts';
import { metFirst, NEWEST_FIRST, readSort } from './order.ts';
import { ALL, fetchFromMatches, fetchPage, type PageRow, type Paging } from './page.ts';
import { isRequested, type ListInput, type ReadInput } from './parameters.ts';
import { resolveRelations } from './resolve.ts';
import { countSlowList } from './slow-lists.ts';
import { type CachedTotal, cachedTotal, cacheTotal, filteredTotal } from './total.ts';

type SelectionInput = Pick<ListInput, 'filters' | 'search' | 'equalTo'>;

/** The compiled condition of a list, view, export or aggregate. */
interface Selection {
  where: Sql;
  /** The condition without the search. */
  condition: Expression | null;
  /** Identifies the condition with its values; '' without a condition, null when the total must not be cached. */
  key: string | null;
  /** Whether it contains a full-text search, whose matches Postgres cannot estimate. */
  isSearch: boolean;
  /** Which matches of the search have the accents of the query; null when all have. */
  isExact: Sql | null;
}

/** One page of an entity's records. */
export async function listRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  input: ListInput,
): Promise<RecordPage> {
  requireRight(caller, 'read', entityName);
  return listIn(app, caller, await accessScopeFor(app, caller, entityName), input);
}

/** One page of an access scope's records. */
export async function listIn(
  app: App,
  caller: TenantCaller,
  scope: AccessScope,
  input: ListInput,
): Promise<RecordPage> {
  countRead(app, caller);
  const { page = LIMITS.list.pageDefault } = input;
  const limit = rowsOfPage(caller, input.limit, LIMITS.list.limitDefault);
  const fields = readProjection(scope, input.fields);
  const selection = await selectInTurn(scope, input);
  const given = readSort(input.sort, input.order, scope.names);
  const { isExact } = selection;
  const keys = given === NEWEST_FIRST && isExact !== null ? metFirst(isExact) : given;
  const found = planList(scope.entity, selection.condition, keys);
  // No index serves both the order and the matches of a search.
  const plan = selection.isSearch ? { ...found, whole: null } : found;
  const isCursorWanted = input.cursor !== undefined || isRequested(input, 'nextCursor');
  const { rows, total, received } = await readWithinBudget(scope, fields, (columns, received) =>
    fetchRows(
      app,
      scope,
      selection,
      plan,
      { page, limit, cursor: input.cursor, isCursorWanted, columns, received },
      input.count !== 'none',
    ),
  );
  const hasMore = rows.length > limit;
  const shown = hasMore ? rows.slice(0, limit) : rows;
  const items = shown.map((row) => shape(row, scope.entity, fields));
  await resolveRelations(app, caller, scope.entity, fields, items, depthOf(input), received);
  const last = shown.at(-1);
  const result = {
    items,
    total,
    page,
    limit,
    totalPages: total === null ? null : Math.ceil(total / limit),
    ...(isCursorWanted
      ? { nextCursor: hasMore && last !== undefined ? writeCursor(plan.order, last.sort_values, last.id) : null }
      : {}),
    ...(isRequested(input, 'etags') ? { etags: shown.map((row) => etagOf(row, scope, caller)) } : {}),
  };
  return sized(result, received.taken);
}

/**
 * Reads whole records first, which costs least. If these are too large, reads only the requested fields, unless all are
 * requested.
 */
async function readWithinBudget<T>(
  { entity }: AccessScope,
  fields: readonly Field[],
  read: (columns: Sql, received: ByteBudget) => Promise<T>,
): Promise<T & { received: ByteBudget }> {
  const isPart = fields.length < entity.fields.length;
  let received = receivedBudget(isPart ? LIMITS.largeCalls.bytesFrom - 1 : undefined);
  try {
    return { ...(await read(RECORD_COLUMNS, received)), received };
  } catch (error) {
    if (!received.isExceeded || !isPart) throw error;
    received = receivedBudget();
    return { ...(await read(columnsOf(fields), received)), received };
  }
}

/** Levels of relations to expand. */
export function depthOf({ resolve, resolve_depth: depth }: ReadInput): number {
  return depth ?? (resolve === true ? 1 : 0);
}

/** The condition of a request, parsed when it is the request's turn: hundreds of requests may have arrived at once. */
export async function selectInTurn(scope: AccessScope, input: SelectionInput): Promise<Selection> {
  const way = giveWayToRead((input.filters?.length ?? 0) + (input.search?.length ?? 0));
  if (way !== undefined) await way;
  return select(scope, input);
}

/** The conjunction of row filter, filters and search. Filters may use visible fields only. */
export function select(scope: AccessScope, input: SelectionInput): Selection {
  const { names } = scope;
  const filters = input.filters?.trim() ? parseExpression(input.filters, names) : null;
  const legacy = Object.entries(input.equalTo ?? {}).map(([key, value]) => equals(key, value, names));
  const condition = and(scope.rowFilter, filters, ...legacy);
  requireSize(condition);
  const search = input.search?.trim() ? searchCondition(scope, input.search) : null;
  const parts = [condition === null ? null : toSql(condition, sql`r`), search?.matches ?? null].filter(
    (part) => part !== null,
  );
  return {
    condition,
    where: parts.length === 0 ? ALL : join(parts, ' and '),
    key: keyOf(scope, condition, search === null ? '' : (input.search ?? '')),
    isSearch: search !== null,
    isExact: search?.isExact ?? null,
  };
}

/**
 * 400 for a condition that is too large. Only relations in the caller's own conditions can make it so: each applies the row
 * filter of its target.
 */
function requireSize(condition: Expression | null): void {
  if (condition === null || sizeOf(condition).comparisons <= CONDITION_MAX_COMPARISONS) return;
  const limit = `at most ${CONDITION_MAX_COMPARISONS} comparisons, with the row filters of the records that relations lead to`;
  throw invalidField('filters', `compares too much: ${limit}; follow fewer relations`);
}

function keyOf(scope: AccessScope, condition: Expression | null, search: string): string | null {
  if (condition !== null && relationKeys(condition).length > 0) return null;
  if (search === '') return condition === null ? '' : canonicalKey(condition);
  const visible = scope.fields.map(({ slot }) => slot).join();
  return JSON.stringify([condition === null ? '' : canonicalKey(condition), search, visible]);
}

/** The fields that `fields` names, or all visible ones. System fields are always returned. */
export function readProjection(scope: AccessScope, text: string | undefined): readonly Field[] {
  if (text === undefined || text.trim() === '') return scope.fields;
  const keys = new Set(text.split(',').map((key) => key.trim()));
  const problems = [...keys]
    .filter((key) => scope.names.field(key) === undefined)
    .map((key) => ({ path: 'fields', message: `unknown field "${key}"` }));
  if (problems.length > 0) throw invalid(problems);
  return scope.fields.filter((field) => keys.has(field.key));
}

/**
 * The page's rows, plus one when another page follows, and the exact total if requested. A list that is slow, or that fails
 * after a long time, is counted for the advice on indexes.
 */
async function fetchRows(
  app: App,
  scope: AccessScope,
  { where, condition, key, isSearch }: Selection,
  plan: ListPlan,
  paging: Paging,
  isCounted: boolean,
): Promise<{ rows: PageRow[]; total: number | null }> {
  const { entity } = scope;
  const { order, whole } = plan;
  const work = currentWork();
  const beforeMs = work.statementMs;
  // The number of records stays unknown when the list fails, perhaps because it takes too long.
  let records = Number.POSITIVE_INFINITY;
  try {
    // With exact matches first, a numbered page has only exact matches if those are dense.
    const firstKey = order.deciding[0]?.field === null && key !== null ? `${key} exactly` : key;
    // If the matches turn out to be many, the page is read in order; if few, indexes find them again. Counting takes 0.6 times
    // as long as finding and sorting all.
    const isUnknown = whole === null && cachedTotal(app, entity, key) === undefined;
    const isOrdered = plan.scan !== null && plan.isFoundByIndexes && !isSearch;
    const isCountedFirst = isOrdered && isUnknown && isCounted && paging.cursor === undefined;
    const counted = isCountedFirst ? await filteredTotal(app, entity, where, key, NEVER_COUNTED) : null;
    const scansInOrder = key === '' || whole !== null || isDense(cachedTotal(app, entity, firstKey), paging);
    if (!scansInOrder && (isSearch || (isCounted && paging.cursor === undefined))) {
      const { rows, counters, total, met } = await fetchFromMatches(app, scope, where, order, paging, isSearch);
      records = counters.n;
      cacheTotal(app, entity, key, total, counters);
      if (firstKey !== key) cacheTotal(app, entity, firstKey, met, counters);
      return { rows, total: isCounted ? total : null };
    }
    const { rows, counters } = await fetchPage(app, scope, where, plan, paging);
    records = counters.n;
    if (!isCounted) return { rows, total: null };
    return {
      rows,
      total: key === '' ? counters.n : (counted ?? (await filteredTotal(app, entity, where, key, counters))),
    };
  } finally {
    const tookMs = work.statementMs - beforeMs;
    const isSlow = tookMs >= LIMITS.slowList.ms && records >= LIMITS.slowList.records;
    if (isSlow && whole === null && !isSearch) countSlowList(app, entity, condition, plan, tookMs);
  }
}

/** Counters that match no cached total. */
const NEVER_COUNTED = { n: 0, v: -1 };

/** The cost of scanning past a record, relative to finding one through an index. */
const SCAN_FACTOR = 4;

/**
 * Whether scanning the records in order fills the page sooner than finding all matches first. It depends on the last known
 * total: an ordered scan reads about (records / total) * rows.
 */
function isDense(known: CachedTotal | undefined, { page, limit }: Paging): boolean {
  return known !== undefined && known.total * known.total >= SCAN_FACTOR * known.records * (page * limit + 1);
}
