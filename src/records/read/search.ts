// Full-text search. The words of a record have the numbers of the fields they stand in: one index
// serves every caller, and a caller confined to some fields is checked against the numbers.
// Contract: decisions#search.
import { searchTerms } from '../../entities/search-vector.ts';
import { join, type Sql, sql } from '../../runtime/sql.ts';
import { type AccessScope, searchedSlots } from '../access-scope.ts';

const QUERY_WORDS_MAX = 32;

/** The condition that a record of table `r` holds every word, or null when the query has none. */
export function searchCondition(scope: AccessScope, query: string): Sql | null {
  const words = [...new Set(searchTerms(query))].slice(0, QUERY_WORDS_MAX);
  if (words.length === 0) return null;
  const indexed = sql`r.words @@ ${words.map((word) => `'${word}':*`).join(' & ')}::tsquery`;
  const { slots, isAll } = searchedSlots(scope);
  if (isAll) return indexed;
  const visible = words.map(
    (word) => sql`exists (
      select from unnest(r.words) as w
      where w.lexeme ^@ ${word} and w.positions && ${slots}::smallint[])`,
  );
  return sql`(${join([indexed, ...visible], ' and ')})`;
}
