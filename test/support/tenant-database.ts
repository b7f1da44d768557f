// Reads and changes a tenant's rows directly in the database, bypassing the service.
import { lockDefinitions } from '../../src/entities/entities.ts';
import { sql, type Tx } from '../../src/runtime/sql.ts';
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

/**
 * Sends a request while the tenant's definitions are locked, calls `meanwhile` once the request waits for the lock, and resolves to
 * its answer. On real stores only: the embedded database has one session, so nothing runs concurrently.
 */
export async function sentWhileLocked<T>(
  { app: { db } }: TestService,
  { id }: { id: string },
  send: () => Promise<T>,
  meanwhile: (tx: Tx) => Promise<void>,
): Promise<T> {
  const { sending } = await db.slow.begin(async (tx) => {
    await lockDefinitions(tx, schemaOf(id));
    let isOver = false;
    const sending = send().finally(() => {
      isOver = true;
    });
    const waits = sql`
      select from pg_locks as l join pg_database as d on d.oid = l.database
      where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`;
    while (!isOver && (await db.first(waits)) === undefined) await Bun.sleep(5);
    await meanwhile(tx);
    return { sending };
  });
  return sending;
}
