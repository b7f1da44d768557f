// What Postgres refuses, in the caller's words: a duplicate in a unique field, a value too long for
// an index, a deadlock. Index names lead back to their fields; no name of Postgres's own is told.
// Contract: decisions#status-codes.
import type { Entity, Field } from '../../entities/field.ts';
import { indexName } from '../../entities/indexes.ts';
import { invalidField } from '../../errors.ts';
import { duplicateOf } from '../batch/duplicates.ts';

/** The error to answer with: ours for a known violation, else the one given. */
export function translateViolation(error: unknown, entity: Entity): unknown {
  const { code, constraint_name: name } = (error ?? {}) as { code?: string; constraint_name?: string };
  if (code === '23505') {
    const isOf = (field: Field): boolean => name === indexName(entity, field, 'unique');
    // Of a field that is being changed, either form may be what is taken.
    const field = entity.fields.find((candidate) => isOf(candidate) || (candidate.next && isOf(candidate.next)));
    return duplicateOf(field?.key ?? 'id');
  }
  if (code === '54000') return invalidField('request', 'holds a value too large for an index or for search');
  return error;
}

export function isDuplicate(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '23505';
}
