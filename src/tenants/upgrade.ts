// Upgrades tenant schemas at start, before the process listens: tenants below the version of this process
// get the pending migrations. Without pending migrations it costs one query. Processes that start together
// share the work. A tenant that cannot be upgraded is logged and reported by the schema health check;
// the start continues. Contract: decisions#configuration.
import type { App } from '../app.ts';
import { ServiceError } from '../errors.ts';
import { forEachConcurrently } from '../runtime/concurrency.ts';
import { sql } from '../runtime/sql.ts';
import { migrateTenant, withTenantLock } from './provision.ts';

/** How many tenants are migrated or repaired at the same time: one for each connection for slow work. */
export const SCHEMA_CONCURRENCY = 2;

/**
 * Upgrades all tenants; resolves to the number that this process upgraded. Rejects with 503 when the database is
 * unavailable.
 */
export async function upgradeTenants(app: App, signal: AbortSignal): Promise<number> {
  const latest = app.tenantSchema.migrations.length;
  const outdated = await app.db.slow.rows<{ id: string; slug: string }>(sql`
    select id, slug from platform.tenants where schema_version < ${latest}::int order by id`);
  if (outdated.length === 0) return 0;
  app.log.info('upgrading tenant schemas', { tenants: outdated.length });
  let upgraded = 0;
  await forEachConcurrently(outdated, SCHEMA_CONCURRENCY, async ({ id, slug }) => {
    signal.throwIfAborted();
    try {
      if (await upgrade(app, id)) upgraded++;
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      app.log.error('a tenant schema could not be upgraded', { tenant: slug, error });
    }
  });
  app.log.info('tenant schemas upgraded', { tenants: upgraded });
  return upgraded;
}

/** False when another process was first, or the tenant is gone. */
async function upgrade(app: App, tenantId: string): Promise<boolean> {
  const upgraded = await withTenantLock(app, tenantId, async (tx, version) => {
    if (version >= app.tenantSchema.migrations.length) return false;
    await migrateTenant(app, tx, tenantId, version);
    return true;
  });
  return upgraded ?? false;
}
