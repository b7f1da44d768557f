// Full-text search. The positions of a record's search terms are the numbers of the fields that contain them, so one
// index serves every caller; for a caller with hidden fields the query also checks the positions.
// Contract: decisions#search.
import type { AccessScope } from '../../entities/access-scope.ts';
import { specOf } from '../../entities/field-types.ts';
import { searchTerms } from '../../entities/search-vector.ts';
import { join, type Sql, sql } from '../../runtime/sql.ts';

const QUERY_TERMS_MAX = 32;

/** The condition that a record of table `r` contains every term; null when the query has none. */
export function searchCondition(scope: AccessScope, query: string): Sql | null {
  const terms = [...new Set(searchTerms(query))].slice(0, QUERY_TERMS_MAX);
  if (terms.length === 0) return null;
  const indexed = sql`r.search_vector @@ ${terms.map((term) => `'${term}':*`).join(' & ')}::tsquery`;
  const { slots, isAll } = searchedSlots(scope);
  if (isAll) return indexed;
  const visible = terms.map(
    (term) => sql`exists (
      select from unnest(r.search_vector) as w
      where w.lexeme ^@ ${term} and w.positions && ${slots}::smallint[])`,
  );
  return sql`(${join([indexed, ...visible], ' and ')})`;
}

/** The slots of the visible text fields, and whether they are all that were ever indexed. */
function searchedSlots({ entity, fields }: AccessScope): { slots: number[]; isAll: boolean } {
  const slots = fields.filter((field) => specOf(field).isSearchable).map(({ slot }) => Number(slot.slice(1)));
  const all = entity.fields.filter((field) => specOf(field).isSearchable).length;
  return { slots, isAll: slots.length === all && entity.retiredSlots.length === 0 };
}
