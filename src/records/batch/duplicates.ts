// Which of many new records repeat a unique value: found in one statement per unique field after an
// insert of all of them was refused, so that only the guilty ones are left out.
// Contract: decisions#field-changes, decisions#status-codes.
import type { Entity, Field } from '../../entities/field.ts';
import { conflict, type ServiceError } from '../../errors.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { type Queries, sql } from '../../runtime/sql.ts';
import type { RecordRow } from '../row.ts';

/** A row's value in a unique field: rows of equal values have equal ranks. */
interface Claim {
  n: number;
  rank: number;
  is_taken: boolean;
}

/** The 409 of a record whose value in a unique field exists already. */
export function duplicateOf(key: string): ServiceError {
  return conflict(`a record with this ${key} exists already`, [{ path: key, message: 'exists already' }]);
}

/** By position: the rows that a stored record, or an acceptable row before them, stands in the way of. */
export async function duplicatesAmong(
  queries: Queries,
  entity: Entity,
  rows: readonly RecordRow[],
): Promise<Map<number, ServiceError>> {
  const claims: { field: Field; byRow: Map<number, Claim>; taken: Set<number> }[] = [];
  for (const field of entity.fields.filter(({ unique }) => unique)) {
    const found = await claimsOn(queries, entity, field, rows);
    claims.push({ field, byRow: new Map(found.map((claim) => [claim.n, claim])), taken: new Set() });
  }
  const duplicates = new Map<number, ServiceError>();
  rows.forEach((_, n) => {
    const inTheWay = claims.find(({ byRow, taken }) => {
      const claim = byRow.get(n);
      return claim !== undefined && (claim.is_taken || taken.has(claim.rank));
    });
    if (inTheWay !== undefined) duplicates.set(n, duplicateOf(inTheWay.field.key));
    else for (const { byRow, taken } of claims) taken.add(byRow.get(n)?.rank ?? -1);
  });
  return duplicates;
}

async function claimsOn(queries: Queries, entity: Entity, field: Field, rows: readonly RecordRow[]): Promise<Claim[]> {
  const value = columnOf(field.ref, sql`i`);
  return queries.rows<Claim>(sql`
    select i.n, dense_rank() over (order by ${value}) as rank,
      exists (select from ${entity.table} as r where ${columnOf(field.ref, sql`r`)} = ${value}) as is_taken
    from (
      select u.n, u.data::jsonb as data
      from unnest(${rows.map((_, n) => n)}::int[], ${rows.map(({ data }) => JSON.stringify(data))}::text[]) as u (n, data)
    ) as i
    where ${value} is not null`);
}
