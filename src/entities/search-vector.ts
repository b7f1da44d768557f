// Full-text search. Splitting and folding happen here, not in Postgres, so that every database and locale agrees. A
// record keeps its terms in one tsvector, in which a term's positions are the numbers of the fields that contain it:
// one index serves all callers, and for a caller with hidden fields the condition also checks the positions.
// Contract: decisions#search.
import { foldCase, isAscii } from '../expression/case-folding.ts';
import { join, type Sql, sql } from '../runtime/sql.ts';
import type { AccessScope } from './access-scope.ts';
import type { Entity, Field } from './field.ts';
import { specOf } from './field-types.ts';
import type { SlotValues } from './values.ts';

/** A run of letters, digits and their marks, or a single emoji. */
const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*|\p{RI}{2}|\p{Extended_Pictographic}/gu;
const ASCII_WORD = /[a-z0-9]+/g;
const WORD_MAX = 200;
/** A tsvector is limited to a megabyte; terms beyond this size are not searchable. */
const VECTOR_BYTES_MAX = 900_000;

/** The terms of a text. Compatibility forms and case are folded, accents are kept. */
function searchTerms(text: string): string[] {
  const words = isAscii(text) ? text.toLowerCase().match(ASCII_WORD) : foldCase(text.normalize('NFKC')).match(WORD);
  return (words ?? []).map((word) => (word.length > WORD_MAX ? word.slice(0, WORD_MAX).toWellFormed() : word));
}

/** The record's tsvector as text; null without terms. */
export function searchVector(entity: Entity, data: SlotValues): string | null {
  const positions = new Map<string, string>();
  for (const field of entity.fields) {
    addTerms(positions, field, data);
    if (field.next !== undefined && field.next.slot !== field.slot) addTerms(positions, field.next, data);
  }
  if (positions.size === 0) return null;
  let vector = '';
  for (const [word, slots] of positions) {
    const entry = `'${word}':${slots} `;
    if (vector.length * 3 + entry.length * 3 > VECTOR_BYTES_MAX) break;
    vector += entry;
  }
  return vector;
}

/** Whether a change keeps the record's search vector; false during a transition of the entity's fields. */
export function isSearchVectorUnchanged(entity: Entity, before: SlotValues, after: SlotValues): boolean {
  if (entity.retiredSlots.length > 0) return false;
  return entity.fields.every(
    (field) => field.next === undefined && (!specOf(field).isSearchable || before[field.slot] === after[field.slot]),
  );
}

/** Adds the field's number to each of its terms; a term's numbers are separated by commas. */
function addTerms(positions: Map<string, string>, field: Field, data: SlotValues): void {
  const text = data[field.slot];
  if (!specOf(field).isSearchable || typeof text !== 'string') return;
  const position = field.slot.slice(1);
  for (const word of searchTerms(text)) {
    const known = positions.get(word);
    if (known === undefined) positions.set(word, position);
    else if (known !== position && !known.endsWith(`,${position}`)) positions.set(word, `${known},${position}`);
  }
}

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
