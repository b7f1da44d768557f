// Restores what an entity's definition requires: the table of its records with its indexes, and its
// counters. Part of the repair of a tenant's schema; existing objects stay untouched. Failures: Postgres's own.
// Contract: interface#schema-health.
import { LIMITS } from '../limits.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { loadCatalog } from './catalog.ts';
import { createRecordTable } from './entities.ts';
import type { Entity } from './field.ts';

/** Repairs all entities of a tenant whose schema is otherwise complete. */
export async function repairEntities(tx: Tx, tenant: Tenant): Promise<void> {
  const entities = [...(await loadCatalog(tx, tenant)).byId.values()];
  const found = await tx.rows<{ name: string }>(sql`
    select relname::text as name from pg_class
    where relnamespace = ${tenant.schema}::regnamespace and relkind in ('r', 'p')`);
  const tables = new Set(found.map(({ name }) => name));
  for (const entity of entities.filter(({ tableName }) => !tables.has(tableName))) {
    await createRecordTable(tx, entity.schema, entity.id, entity.fields);
    await tx.rows(sql`
      update ${identifier(tenant.schema, 'entity_counts')} set n = 0, v = v + 1 where entity_id = ${entity.id}::uuid`);
  }
  const counted = await tx.rows<{ entity_id: string }>(sql`
    select entity_id from ${identifier(tenant.schema, 'entity_counts')}
    group by entity_id having count(*) = ${LIMITS.counterSlots}::int`);
  const complete = new Set(counted.map(({ entity_id: id }) => id));
  for (const entity of entities) if (!complete.has(entity.id)) await recount(tx, entity);
}

/** Recounts the records into the counters. Blocks writers. */
async function recount(tx: Tx, entity: Entity): Promise<void> {
  const counts = identifier(entity.schema, 'entity_counts');
  await tx.rows(sql`lock table ${entity.table} in share row exclusive mode`);
  await tx.rows(sql`
    insert into ${counts} (entity_id, slot)
    select ${entity.id}::uuid, slot from generate_series(0, ${LIMITS.counterSlots - 1}::int) as slot
    on conflict do nothing`);
  await tx.rows(sql`
    update ${counts}
    set n = case when slot = 0 then (select count(*) from ${entity.table}) else 0 end, v = v + 1
    where entity_id = ${entity.id}::uuid`);
}
