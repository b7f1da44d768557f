// Reads and changes a tenant's rows directly in the database, bypassing the service.
import { sql } from '../../src/runtime/sql.ts';
import { schemaOf } from '../../src/tenants/tenants.ts';
import type { Json, TestService } from './service.ts';

export interface StoredEvent {
  type: string;
  record_id: string | null;
  payload: Json;
  depth: number;
  triggered_by: string;
  /** The id of its transaction. */
  xid: string;
}

/** The events of a type that a tenant has had, in order. */
export async function storedEvents(service: TestService, { id }: { id: string }, type: string): Promise<StoredEvent[]> {
  return service.app.db.rows<StoredEvent>(sql`
    select type, record_id, payload, depth, triggered_by, xid::text as xid from platform.events
    where tenant_id = ${id}::uuid and type = ${type} order by seq`);
}

/** Runs statements in the schema of a tenant, in one transaction. */
export async function runInSchema(service: TestService, { id }: { id: string }, statements: string): Promise<void> {
  await service.app.db.slow.begin(async (tx) => {
    await tx.rows(sql`select set_config('search_path', ${`${schemaOf(id)}, public`}, true)`);
    await tx.exec(statements);
  });
}
