// Listing records: filters, search, sorting, pages by number or by cursor, and a total that is
// exact and cheap. One statement gives the page with the entity's counters, or, for a condition whose
// total is not known to be large, the page with its total. Contract: interface#list, decisions#lists.

import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { catalogOf, entityFor } from '../../entities/catalog.ts';
import type { Field } from '../../entities/field.ts';
import { invalid } from '../../errors.ts';
import { and, canonicalKey, type Expression, relationKeys } from '../../expression/ast.ts';
import { equals, parseExpression } from '../../expression/parse.ts';
import { toSql } from '../../expression/to-sql.ts';
import { LIMITS } from '../../limits.ts';
import { join, type Sql, sql } from '../../runtime/sql.ts';
import { type AccessScope, accessScopeOf } from '../access-scope.ts';
import type { RecordPage } from '../record.ts';
import { shape } from '../shape.ts';
import { readSort, type SortKey, writeCursor } from './order.ts';
import { fetchHits, fetchPage, type PageRow, type Paging } from './page.ts';
import { resolveRelations } from './resolve.ts';
import { searchCondition } from './search.ts';
import { filteredTotal, type Remembered, recall, remember } from './total.ts';

/** Which records, in which order, how much of them. All members as the list parameters of the contract. */
export interface ListInput {
  page?: number | undefined;
  limit?: number | undefined;
  sort?: string | undefined;
  order?: 'asc' | 'desc' | undefined;
  search?: string | undefined;
  resolve?: boolean | undefined;
  resolve_depth?: number | undefined;
  filters?: string | undefined;
  fields?: string | undefined;
  cursor?: string | undefined;
  count?: 'exact' | 'none' | undefined;
  /** The legacy `filter.{fieldKey}` parameters, by field key. */
  equalTo?: Readonly<Record<string, string>> | undefined;
}

/** What a list shows, compiled: shared by lists, views, exports and aggregates. */
export interface Selection {
  where: Sql;
  /** Identifies the condition and its values; '' when every row is meant, null when it must not be remembered. */
  key: string | null;
  /** Whether words are searched for: Postgres cannot tell how many records have one. */
  isSearch: boolean;
}

/** The records of an entity that the caller may read and asked for. */
export async function listRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  input: ListInput,
): Promise<RecordPage> {
  requireRight(caller, 'read', entityName);
  const entity = await entityFor(app, caller, entityName);
  const catalog = await catalogOf(app, caller.tenant);
  const scope = accessScopeOf(catalog, caller, entity);
  return listIn(app, caller, scope, input, null);
}

/** The same within a base condition that always holds (a view's). */
export async function listIn(
  app: App,
  caller: TenantCaller,
  scope: AccessScope,
  input: ListInput,
  base: Expression | null,
): Promise<RecordPage> {
  const { page = LIMITS.list.pageDefault, limit = LIMITS.list.limitDefault } = input;
  const sort = readSort(input.sort, input.order, scope.names);
  const fields = readProjection(scope, input.fields);
  const selection = select(scope, input, base);
  const paging = { page, limit, cursor: input.cursor };
  const { rows, total } = await fetchRows(app, scope, selection, sort, paging, input.count !== 'none');
  const hasMore = rows.length > limit;
  const shown = hasMore ? rows.slice(0, limit) : rows;
  const items = shown.map((row) => shape(row, scope.entity, fields));
  await resolveRelations(app, caller, scope.entity, fields, items, depthOf(input));
  const last = shown.at(-1);
  return {
    items,
    total,
    page,
    limit,
    totalPages: total === null ? null : Math.ceil(total / limit),
    ...(input.cursor === undefined
      ? {}
      : { nextCursor: hasMore && last !== undefined ? writeCursor(sort, last.sort_values, last.id) : null }),
  };
}

/** Levels of relations to expand: 0 to 2. A depth turns expansion on by itself. */
export function depthOf({ resolve, resolve_depth: depth }: Pick<ListInput, 'resolve' | 'resolve_depth'>): number {
  return depth ?? (resolve === true ? 1 : 0);
}

/** The condition of the caller's rows, the base, filters and search together. Filters may name only what the caller sees. */
export function select(scope: AccessScope, input: ListInput, base: Expression | null): Selection {
  const { names } = scope;
  const filters = input.filters?.trim() ? parseExpression(input.filters, names, 'filters') : null;
  const legacy = Object.entries(input.equalTo ?? {}).map(([key, value]) => equals(key, value, names, `filter.${key}`));
  const condition = and(scope.rowFilter, base, filters, ...legacy);
  const search = input.search?.trim() ? searchCondition(scope, input.search) : null;
  const parts = [condition === null ? null : toSql(condition, sql`r`), search].filter((part) => part !== null);
  return {
    where: parts.length === 0 ? sql`true` : join(parts, ' and '),
    key: keyOf(scope, condition, search === null ? '' : (input.search ?? '')),
    isSearch: search !== null,
  };
}

function keyOf(scope: AccessScope, condition: Expression | null, search: string): string | null {
  if (condition !== null && relationKeys(condition).length > 0) return null;
  if (search === '') return condition === null ? '' : canonicalKey(condition);
  const visible = scope.fields.map(({ slot }) => slot).join();
  return JSON.stringify([condition === null ? '' : canonicalKey(condition), search, visible]);
}

/** The fields named in `fields`, or all that the caller sees. System fields are always shown. */
export function readProjection(scope: AccessScope, text: string | undefined): readonly Field[] {
  if (text === undefined || text.trim() === '') return scope.fields;
  const keys = new Set(text.split(',').map((key) => key.trim()));
  const problems = [...keys]
    .filter((key) => scope.names.field(key) === undefined)
    .map((key) => ({ path: 'fields', message: `unknown field "${key}"` }));
  if (problems.length > 0) throw invalid(problems);
  return scope.fields.filter((field) => keys.has(field.key));
}

/** The page's rows, one more where there is one, and the exact total unless it is not wanted. */
async function fetchRows(
  app: App,
  scope: AccessScope,
  { where, key, isSearch }: Selection,
  sort: readonly SortKey[],
  paging: Paging,
  isCounted: boolean,
): Promise<{ rows: PageRow[]; total: number | null }> {
  const { entity } = scope;
  const isWalked = key === '' || isDense(recall(app, entity, key), paging);
  if (!isWalked && (isSearch || (isCounted && paging.cursor === undefined))) {
    const { rows, counters, total } = await fetchHits(app, scope, where, sort, paging);
    remember(app, entity, key, total, counters);
    return { rows, total: isCounted ? total : null };
  }
  const { rows, counters } = await fetchPage(app, scope, where, sort, paging);
  if (!isCounted) return { rows, total: null };
  return { rows, total: key === '' ? counters.n : await filteredTotal(app, entity, where, key, counters) };
}

/** Walking past a record costs this much of finding one through an index. */
const WALK_FACTOR = 4;

/**
 * Whether walking the records in their order is likely to fill the page sooner than finding all that meet the
 * condition: by what was last counted, stale or not. About (records / total) * rows are met on the way.
 */
function isDense(known: Remembered | undefined, { page, limit }: Paging): boolean {
  return known !== undefined && known.total * known.total >= WALK_FACTOR * known.records * (page * limit + 1);
}
