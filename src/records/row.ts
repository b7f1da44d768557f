// A record's row: what every statement that reads or writes records returns, what events carry, and how
// expressions see it. Values are keyed by slot; times are ISO 8601 UTC text with milliseconds.
// Contract: interface#record.
import type { RecordRow } from '../events/event.ts';
import type { StoredRow } from '../expression/ast.ts';

export { RECORD_COLUMNS, type RecordRow } from '../events/event.ts';

/** The row as expressions see it. */
export function storedRow(row: RecordRow, entityId: string): StoredRow {
  return {
    id: row.id,
    entityId,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    createdBy: row.created_by,
    updatedBy: row.updated_by,
    data: row.data,
  };
}
