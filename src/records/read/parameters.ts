// The query parameters of lists and single reads of records, and their conversion to inputs. Numbers and flags arrive as
// texts, so that one answer reports every problem.
// Contract: interface#list, decisions#lists.
import { type Static, Type } from '@sinclair/typebox';
import { flagParameter, integerParameter, pageParameters } from '../../http/parameters.ts';
import { open } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import type { ListInput } from './list.ts';
import type { ReadInput } from './read.ts';

const { resolveDepthMax } = LIMITS.list;

const Expansion = {
  resolve: Type.Optional(flagParameter({ description: 'expand relations to full records' })),
  resolve_depth: Type.Optional(
    integerParameter(1, resolveDepthMax, {
      description: 'levels of relations to expand; implies `resolve`',
    }),
  ),
  fields: Type.Optional(Type.String({ description: 'only these fields, separated by commas; system fields always' })),
};

/** Query parameters of every list of records; read with `listInput`. */
export const ListQuery = open({
  ...pageParameters(),
  sort: Type.Optional(Type.String({ description: 'fields to sort by, separated by commas; `-` sorts one descending' })),
  order: Type.Optional(
    Type.Union([Type.Literal('asc'), Type.Literal('desc')], {
      description: 'direction of sort keys without a sign',
      error: 'must be asc or desc',
    }),
  ),
  search: Type.Optional(
    Type.String({
      maxLength: 1_000,
      description: 'terms that must all occur, as words or prefixes',
      error: 'must have at most 1000 characters',
    }),
  ),
  filters: Type.Optional(Type.String({ description: 'a condition, such as `status = "open" AND amount > 10`' })),
  cursor: Type.Optional(Type.String({ description: 'keyset paging: empty for the first page, then `nextCursor`' })),
  count: Type.Optional(
    Type.Union([Type.Literal('exact'), Type.Literal('none')], {
      description: '`none` omits the total',
      error: 'must be exact or none',
    }),
  ),
  ...Expansion,
});
/** Query parameters of a single record; read with `readInput`. */
export const ReadQuery = open(Expansion);

const LEGACY_FILTER = 'filter.';

/** The list's input from its checked query, the legacy `filter.{fieldKey}` parameters collected. */
export function listInput(query: Static<typeof ListQuery>): ListInput {
  const legacy = Object.entries(query).filter(([name]) => name.startsWith(LEGACY_FILTER));
  const equalTo = Object.fromEntries(legacy.map(([name, value]) => [name.slice(LEGACY_FILTER.length), String(value)]));
  const { page, limit, sort, order, search, filters, cursor, count } = query;
  return {
    ...readInput(query),
    page,
    limit,
    sort,
    order,
    search,
    filters,
    cursor,
    count,
    equalTo,
  };
}

/** The input of a single read from its checked query. */
export function readInput({ resolve, resolve_depth: depth, fields }: Static<typeof ReadQuery>): ReadInput {
  return { resolve, resolve_depth: depth, fields };
}
