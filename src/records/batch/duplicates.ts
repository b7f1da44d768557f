// Which of many new records have a duplicate in a unique field: one query per unique field, after the insert of all of
// them has failed. The other records can then be inserted.
// Contract: decisions#field-changes, decisions#status-codes.
import type { Entity, Field } from '../../entities/field.ts';
import type { ServiceError } from '../../errors.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { type Queries, sql } from '../../runtime/sql.ts';
import type { RecordRow } from '../row.ts';
import { duplicateOf } from '../write/constraints.ts';

/** A row's value in a unique field: equal values have equal ranks. */
interface UniqueValue {
  n: number;
  rank: number;
  is_taken: boolean;
}

/** The rows whose value is stored already, or in an accepted row before them; by position. */
export async function duplicatesAmong(
  queries: Queries,
  entity: Entity,
  rows: readonly RecordRow[],
): Promise<Map<number, ServiceError>> {
  const fields: { field: Field; byRow: Map<number, UniqueValue>; taken: Set<number> }[] = [];
  for (const field of entity.fields.filter(({ unique }) => unique)) {
    const values = await uniqueValues(queries, entity, field, rows);
    fields.push({ field, byRow: new Map(values.map((value) => [value.n, value])), taken: new Set() });
  }
  const duplicates = new Map<number, ServiceError>();
  rows.forEach((_, n) => {
    const duplicate = fields.find(({ byRow, taken }) => {
      const value = byRow.get(n);
      return value !== undefined && (value.is_taken || taken.has(value.rank));
    });
    if (duplicate !== undefined) duplicates.set(n, duplicateOf(duplicate.field.key));
    else for (const { byRow, taken } of fields) taken.add(byRow.get(n)?.rank ?? -1);
  });
  return duplicates;
}

async function uniqueValues(
  queries: Queries,
  entity: Entity,
  field: Field,
  rows: readonly RecordRow[],
): Promise<UniqueValue[]> {
  const value = columnOf(field.ref, sql`i`);
  return queries.rows<UniqueValue>(sql`
    select i.n, dense_rank() over (order by ${value}) as rank,
      exists (select from ${entity.table} as r where ${columnOf(field.ref, sql`r`)} = ${value}) as is_taken
    from (
      select u.n, u.data::jsonb as data
      from unnest(${rows.map((_, n) => n)}::int[], ${rows.map(({ data }) => JSON.stringify(data))}::text[]) as u (n, data)
    ) as i
    where ${value} is not null`);
}
