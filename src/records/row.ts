// A record as it lies in its partition: what every statement that reads records selects, and how
// expressions see it. Values stand by slot, times are ISO 8601 UTC text with milliseconds.
// Contract: interface#record.
import type { StoredRow } from '../expression/ast.ts';
import { type Sql, sql } from '../runtime/sql.ts';

/** A record's row: `data` by slot, times as ISO text. */
export interface RecordRow {
  id: string;
  version: number;
  data: Record<string, unknown>;
  created_at: string;
  updated_at: string;
  created_by: string | null;
  updated_by: string | null;
}

/** The columns of a RecordRow, of the table named `r`. */
export const RECORD_COLUMNS: Sql = sql`r.id, r.version, r.data, r.created_at, r.updated_at, r.created_by, r.updated_by`;

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
