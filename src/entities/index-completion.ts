// Completes indexes that queries cannot use, because a later change of definition or a crash interrupted their build. A second
// index is built beside each of them, so that unique values are checked all the while.
// Contract: decisions#field-changes.
import { type App, perApp } from '../app.ts';
import { buildIndexBeside, cancelWaitingBuilds, isNotBeingBuilt } from '../runtime/index-builds.ts';
import { Retries } from '../runtime/retries.ts';
import { identifier, sql } from '../runtime/sql.ts';
import { forTenant } from '../runtime/work.ts';
import { type Tenant, tenantById } from '../tenants/tenants.ts';
import { isBeingChanged, withDefinitionLock } from './definition-lock.ts';
import { requiredIndexes } from './indexes.ts';

const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60 * 60_000;
const retriesOf = perApp(() => new Retries(FIRST_PAUSE_MS, LONGEST_PAUSE_MS));

interface Unused {
  tenant_id: string;
  entity_id: string;
  name: string;
}

/**
 * Indexes of records that queries cannot use and that nobody is building. The name of a record table contains its entity's id.
 */
async function unusedIndexes(app: App): Promise<Unused[]> {
  return app.db.slow.rows<Unused>(sql`
    select substr(n.nspname, 3)::uuid as tenant_id, substr(t.relname, 3)::uuid as entity_id, c.relname::text as name
    from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    join pg_class as t on t.oid = i.indrelid
    join pg_namespace as n on n.oid = t.relnamespace
    where not i.indisvalid and i.indisready and n.nspname ~ '^t_[0-9a-f]{32}$' and t.relname ~ '^r_[0-9a-f]{32}$'
      and ${isNotBeingBuilt(sql`i.indexrelid`)}`);
}

/**
 * Completes the unused indexes that definitions require. An index that fails is left to a later round, and logged when the
 * cause is new. Resolves to the number of completed indexes.
 */
export async function completeIndexesOnce(app: App): Promise<number> {
  const retries = retriesOf(app);
  let completed = 0;
  for (const index of retries.due(await unusedIndexes(app), keyOf)) {
    const tenant = await tenantById(app, index.tenant_id);
    if (tenant === null) continue;
    try {
      completed += await forTenant(tenant.id, () => completeIndex(app, tenant, index));
      retries.succeeded(keyOf(index));
    } catch (cause) {
      if (isBeingChanged(cause) || !retries.failed(keyOf(index), cause)) continue;
      app.log.warn('an index is not completed yet', { tenant: tenant.slug, index: index.name, cause });
    }
  }
  return completed;
}

/** The tenant is part of the key, since a clone's indexes have the same names. */
const keyOf = ({ tenant_id, name }: Unused): string => `${tenant_id} ${name}`;

/** Resolves to 0 when the index is no longer required, or somebody else builds it. */
function completeIndex(app: App, tenant: Tenant, unused: Unused): Promise<number> {
  const { entity_id: entityId, name } = unused;
  return withDefinitionLock(app, tenant, async (lock) => {
    const entity = await lock.transaction(async (_, catalog) => catalog.byId.get(entityId));
    const isRequired = entity !== undefined && requiredIndexes(entity).some((index) => index.name === name);
    const isStillUnused = (await unusedIndexes(app)).some((index) => keyOf(index) === keyOf(unused));
    if (entity === undefined || !isRequired || !isStillUnused) return 0;
    await cancelWaitingBuilds(app.db, entity.schema, entity.tableName);
    await buildIndexBeside(app.db, sql`reindex index concurrently ${identifier(entity.schema, name)}`);
    return 1;
  });
}
