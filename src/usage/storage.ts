// The bytes of records that are older than their counters. Writes count only their own changes, so these records are measured
// once, by a statement that adds the missing bytes to the counters in one snapshot; writers need not wait. Each statement
// measures one entity. Contract: neighbours#usage-and-quotas.
import type { App } from '../app.ts';
import { identifier, type Queries, sql } from '../runtime/sql.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { schemaOf } from '../tenants/tenants.ts';

const POLL_MS = 60_000;

export function startStorageMeasurement(app: App): Worker {
  const once = (signal: AbortSignal): Promise<number> => measureStorageOnce(app, signal);
  return startWorker({ name: 'storage measurement', once, pollMs: POLL_MS, log: app.log });
}

/** Measures one tenant that has not been measured; resolves to 1, or to 0 when there is none. */
export async function measureStorageOnce(app: App, signal: AbortSignal): Promise<number> {
  const tenant = await app.db.slow.first<{ id: string }>(sql`
    select id from platform.tenants
    where not is_storage_measured and schema_version >= ${app.tenantSchema.migrations.length}::int
    order by id limit 1`);
  if (tenant === undefined) return 0;
  const entities = await app.db.slow.rows<{ id: string }>(sql`
    select entity_id as id from platform.entity_counts
    where tenant_id = ${tenant.id}::uuid and slot = 0 and not is_measured`);
  for (const { id } of entities) {
    if (signal.aborted) return 0;
    await measureEntity(app.db.slow, tenant.id, id);
  }
  await app.db.slow.rows(sql`update platform.tenants set is_storage_measured = true where id = ${tenant.id}::uuid`);
  return 1;
}

/** Adds the bytes that the entity's counters lack. Another process that measures it meanwhile adds nothing. */
async function measureEntity(queries: Queries, tenantId: string, entityId: string): Promise<void> {
  const own = sql`tenant_id = ${tenantId}::uuid and entity_id = ${entityId}::uuid`;
  await queries.rows(sql`
    update platform.entity_counts as c
    set is_measured = true, bytes = c.bytes + m.missing
    from (
      select coalesce(sum(octet_length(r.data::text)), 0)::bigint
        - (select coalesce(sum(bytes), 0)::bigint from platform.entity_counts where ${own}) as missing
      from ${identifier(schemaOf(tenantId), 'entity_records')} as r
      where r.entity_id = ${entityId}::uuid
    ) as m
    where ${own} and c.slot = 0 and not c.is_measured`);
}
