// The query parameters of lists and of single reads of records. Numbers and flags arrive as text, so that one answer
// reports every problem.
// Contract: interface#list, decisions#lists.
import { type Static, Type } from '@sinclair/typebox';
import { flagParameter, integerParameter, pageParameters, parameters } from '../../http/parameters.ts';
import { LIMITS } from '../../limits.ts';

const Expansion = {
  resolve: Type.Optional(flagParameter({ description: 'expand relations to full records' })),
  resolve_depth: Type.Optional(
    integerParameter(1, LIMITS.list.resolveDepthMax, {
      description: 'levels of relations to expand; implies `resolve`',
    }),
  ),
  fields: Type.Optional(Type.String({ description: 'only these fields, separated by commas; system fields always' })),
};

/** The additional members that a list returns on request. */
const FURTHER_MEMBERS = ['etags', 'nextCursor'] as const;

/** Legacy filters: `filter.{fieldKey}` selects the records with exactly that value. */
export const LEGACY_FILTER = 'filter.';

export const ListQuery = parameters(
  {
    ...pageParameters(),
    sort: Type.Optional(
      Type.String({ description: 'fields to sort by, separated by commas; `-` sorts one descending' }),
    ),
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
    with: Type.Optional(
      Type.String({
        pattern: `^(${FURTHER_MEMBERS.join('|')})?(,(${FURTHER_MEMBERS.join('|')}))*$`,
        description: 'further members of the response, separated by commas: `etags`, `nextCursor`',
        error: `must be a list of ${FURTHER_MEMBERS.join(', ')}`,
        examples: ['etags,nextCursor'],
      }),
    ),
    ...Expansion,
  },
  LEGACY_FILTER,
);
export const ReadQuery = parameters(Expansion);
/** The query parameters of the route that reads one record. */
export const RecordQuery = parameters({
  ...Expansion,
  asOf: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'the record as it was at this time (ISO 8601 with a zone) or cursor of the feed',
      error: 'must be a time or a cursor',
    }),
  ),
});

export type ReadInput = Static<typeof ReadQuery>;
export type RecordQuery = Static<typeof RecordQuery>;
/** `equalTo` holds the legacy `filter.{fieldKey}` parameters, by field key. */
export type ListInput = Static<typeof ListQuery> & { equalTo?: Readonly<Record<string, string>> };

/** Whether a list must return a further member. */
export function isRequested(input: Pick<ListInput, 'with'>, member: (typeof FURTHER_MEMBERS)[number]): boolean {
  return input.with?.split(',').includes(member) === true;
}

/** The checked query of a list, with its legacy filters collected. */
export function listInput<Query extends object>(query: Query): Query & Pick<ListInput, 'equalTo'> {
  const legacy = Object.entries(query).filter(([name]) => name.startsWith(LEGACY_FILTER));
  const equalTo = Object.fromEntries(legacy.map(([name, value]) => [name.slice(LEGACY_FILTER.length), String(value)]));
  return { ...query, equalTo };
}
