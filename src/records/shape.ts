// From a stored row to the flat record that a caller may see. Every output uses it: REST, export,
// relations, streams. Also the entity tags, and what conditional requests say of them.
// Contract: interface#record, decisions#concurrency.
import type { Entity, Field } from '../entities/field.ts';
import type { FlatRecord } from './record.ts';
import type { RecordRow } from './row.ts';

/** The flat record, with the given fields only; a field without a value is null. */
export function shape(row: RecordRow, entity: Entity, fields: readonly Field[]): FlatRecord {
  const record: Record<string, unknown> = { id: row.id, entityId: entity.id };
  for (const field of fields) record[field.key] = row.data[field.slot] ?? null;
  record.createdAt = row.created_at;
  record.updatedAt = row.updated_at;
  record.createdBy = row.created_by;
  record.updatedBy = row.updated_by;
  return record as FlatRecord;
}

/** The strong validator of a record: its version. What hidden fields hold does not enter it. */
export function etagOf(row: { version: number }): string {
  return `"${row.version}"`;
}

/**
 * The versions that an `If-Match` lets pass: null when it is absent or `*`. A weak tag, or one that is none of ours,
 * never matches.
 */
export function versionsFrom(ifMatch: string | null): number[] | null {
  if (ifMatch === null || ifMatch.trim() === '*') return null;
  return tagsIn(ifMatch).flatMap((tag) => {
    const [, version] = /^"(\d{1,15})"$/.exec(tag) ?? [];
    return version === undefined ? [] : [Number(version)];
  });
}

/** Whether an `If-None-Match` names the tag, compared weakly, or is `*`. */
export function isNamedIn(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false;
  return ifNoneMatch.trim() === '*' || tagsIn(ifNoneMatch).some((tag) => tag.replace(/^W\//, '') === etag);
}

function tagsIn(header: string): string[] {
  return header.split(',').map((tag) => tag.trim());
}
