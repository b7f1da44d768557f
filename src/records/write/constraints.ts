// Translates Postgres's constraint violations into errors of the service: a duplicate in a unique field, a value too
// large for an index. The name of an index determines its field; responses do not show it. When the insert of a batch
// fails, one query per unique field finds the duplicates among its records, so that the others can be inserted.
// Contract: decisions#status-codes, decisions#field-changes.
import type { TenantCaller } from '../../access/caller.ts';
import { visibleFields } from '../../entities/access-scope.ts';
import type { Entity, Field } from '../../entities/field.ts';
import { indexName } from '../../entities/indexes.ts';
import { conflict, invalidField, type ServiceError } from '../../errors.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { type Queries, sql } from '../../runtime/sql.ts';
import type { RecordRow } from '../row.ts';
import type { Writing } from './context.ts';

/** The service's error for a known violation, else the error itself. It names only a field that the caller may see. */
export function translateViolation(error: unknown, entity: Entity, caller: TenantCaller): unknown {
  const { code, constraint_name: name } = (error ?? {}) as { code?: string; constraint_name?: string };
  if (code === '23505') {
    const isOf = (field: Field): boolean => name === indexName(entity, field, 'unique');
    // During a transition of the field, either form may be the duplicate.
    const field = entity.fields.find((candidate) => isOf(candidate) || (candidate.next && isOf(candidate.next)));
    return duplicateOf(field, entity, caller);
  }
  if (code === '54000') return invalidField('request', 'holds a value too large for an index or for search');
  return error;
}

export function isDuplicate(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '23505';
}

/** The 409 for a value that another record has. */
export function duplicateOf(field: Field | undefined, entity: Entity, caller: TenantCaller): ServiceError {
  const isHidden = field !== undefined && !visibleFields(caller, entity).some(({ id }) => id === field.id);
  if (isHidden) return conflict('a record with one of these values already exists');
  const key = field?.key ?? 'id';
  return conflict(`a record with this ${key} already exists`, [{ path: key, message: 'already exists' }]);
}

export function idTaken(): ServiceError {
  return conflict('a record with this id already exists', [{ path: 'id', message: 'already exists' }]);
}

/** The rows whose id a stored record already has; by position. */
export async function takenIds(
  { queries }: Pick<Writing, 'queries'>,
  entity: Entity,
  rows: readonly RecordRow[],
): Promise<Map<number, ServiceError>> {
  const found = await queries.rows<{ id: string }>(sql`
    select r.id from ${entity.table} as r where r.id = any(${rows.map(({ id }) => id)}::uuid[])`);
  const taken = new Set(found.map(({ id }) => id));
  return new Map(rows.flatMap(({ id }, n) => (taken.has(id) ? [[n, idTaken()] as const] : [])));
}

/**
 * The value of the row at position `n` in a unique field, and whether a stored record already has it. Equal values have
 * equal ranks.
 */
interface UniqueValue {
  n: number;
  rank: number;
  is_taken: boolean;
}

/** The rows with a unique value that is already stored, or that an accepted row before them has; by position. */
export async function duplicatesAmong(
  { queries, caller }: Pick<Writing, 'queries' | 'caller'>,
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
    if (duplicate !== undefined) duplicates.set(n, duplicateOf(duplicate.field, entity, caller));
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
