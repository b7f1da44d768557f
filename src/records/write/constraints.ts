// Constraint violations of Postgres as errors of the service: a duplicate in a unique field, a value too large for an
// index. Index names lead back to their fields; Postgres's own names are not shown.
// Contract: decisions#status-codes.
import type { Entity, Field } from '../../entities/field.ts';
import { indexName } from '../../entities/indexes.ts';
import { conflict, invalidField, type ServiceError } from '../../errors.ts';

/** The service's error for a known violation, else the error itself. */
export function translateViolation(error: unknown, entity: Entity): unknown {
  const { code, constraint_name: name } = (error ?? {}) as { code?: string; constraint_name?: string };
  if (code === '23505') {
    const isOf = (field: Field): boolean => name === indexName(entity, field, 'unique');
    // During a transition of the field, either form may be the duplicate.
    const field = entity.fields.find((candidate) => isOf(candidate) || (candidate.next && isOf(candidate.next)));
    return duplicateOf(field?.key ?? 'id');
  }
  if (code === '54000') return invalidField('request', 'holds a value too large for an index or for search');
  return error;
}

export function isDuplicate(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '23505';
}

/** The 409 for a record whose value in a unique field exists. */
export function duplicateOf(key: string): ServiceError {
  return conflict(`a record with this ${key} exists already`, [{ path: key, message: 'exists already' }]);
}
