// How much a tenant stores besides its records. Triggers count it when rows are added and removed, so that a limit is checked
// without reading the rows. Concurrent transactions do not see each other's rows, and may exceed a limit by these.
// Contract: neighbours#byte-budgets.
import { type Queries, sql } from '../runtime/sql.ts';

/** Tables whose rows are counted. */
export type StoredKind = 'messages' | 'idempotency_keys';

export interface Stored {
  count: number;
  /** The bytes of texts in UTF-8, plus a fixed number for each row. */
  bytes: number;
}

export async function storedOf(queries: Queries, tenantId: string, kind: StoredKind): Promise<Stored> {
  const stored = await queries.first<Stored>(sql`
    select coalesce(sum(n), 0)::float8 as count, coalesce(sum(bytes), 0)::float8 as bytes
    from platform.stored
    where tenant_id = ${tenantId}::uuid and kind = ${kind}`);
  return stored ?? { count: 0, bytes: 0 };
}
