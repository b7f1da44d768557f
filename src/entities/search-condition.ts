// The condition of a full-text search on the records of an access scope. With `searchFolding` a word also matches without its
// accents; a match is exact when it has the accents of the query. While the terms of the records are being changed from one
// setting to the other, only exact matches count, because both kinds of terms contain them.
// Contract: decisions#search, neighbours#fair-shares.
import { foldAccents } from '../expression/accent-folding.ts';
import { EMPTY, join, type Sql, sql } from '../runtime/sql.ts';
import type { AccessScope } from './access-scope.ts';
import { specOf } from './field-types.ts';
import { termOf, wordsOf } from './search-vector.ts';

const QUERY_TERMS_MAX = 32;
/** The longest query, in UTF-16 units; a query of 32 terms seldom has more than 300. */
const QUERY_MAX = 4_096;

/** Conditions on table `r`. */
export interface Search {
  matches: Sql;
  /** Which of the matches are exact; null when all are. */
  isExact: Sql | null;
}

/** The conditions that a record contains every term; null when the query has none. */
export function searchCondition(scope: AccessScope, query: string): Search | null {
  const { entity } = scope;
  const words = wordsOf(query.slice(0, QUERY_MAX).toWellFormed()).words;
  const terms = firstTerms(words);
  if (terms.length === 0) return null;
  if (entity.isSearchChanging) return { matches: contains(scope, terms, true), isExact: null };
  if (!entity.searchFolding) return { matches: contains(scope, terms, false), isExact: null };
  const folded = firstTerms(words.map(foldAccents));
  return { matches: contains(scope, folded, false), isExact: contains(scope, terms, true) };
}

function firstTerms(words: readonly string[]): string[] {
  return [...new Set(words.map(termOf))].slice(0, QUERY_TERMS_MAX);
}

/** The condition that visible fields contain all terms, as the beginnings of words; for exact terms, with their accents. */
function contains(scope: AccessScope, terms: readonly string[], isExact: boolean): Sql {
  const indexed = sql`r.search_vector @@ ${terms.map((term) => `'${term}':*${isExact ? 'D' : ''}`).join(' & ')}::tsquery`;
  const { slots, isAll } = searchedSlots(scope);
  if (isAll) return indexed;
  const visible = terms.map(
    (term) => sql`exists (
      select from unnest(r.search_vector) as w ${isExact ? sql`cross join unnest(w.positions, w.weights) as p (slot, weight)` : EMPTY}
      where w.lexeme ^@ ${term} and ${isExact ? sql`p.weight = 'D' and p.slot = any(${slots}::smallint[])` : sql`w.positions && ${slots}::smallint[]`})`,
  );
  return sql`(${join([indexed, ...visible], ' and ')})`;
}

/** The slots of the visible text fields, and whether they are all that were ever indexed. */
function searchedSlots({ entity, fields }: AccessScope): { slots: number[]; isAll: boolean } {
  const slots = fields.filter((field) => specOf(field).isSearchable).map(({ slot }) => Number(slot.slice(1)));
  const all = entity.fields.filter((field) => specOf(field).isSearchable).length;
  return { slots, isAll: slots.length === all && entity.retiredSlots.length === 0 };
}
