// Tenants whose schema is of another version than this process get the schema's files applied again,
// at start, before it listens; with none of them it costs one query. Processes that start together
// share the work, tenant by tenant. A tenant that cannot be brought up to date is logged and shown by
// the schema health check; it does not keep the others from being served.
import type { App } from '../app.ts';
import { ServiceError } from '../errors.ts';
import { forEachConcurrently } from '../runtime/concurrency.ts';
import { sql } from '../runtime/sql.ts';
import { applyTenantSchema, withTenantLock } from './provision.ts';

/** Tenants completed at the same time: the connections for slow work. */
export const SCHEMA_CONCURRENCY = 2;

/** Brings all tenants up to date; resolves to how many this process has. Rejects when the database is away. */
export async function upgradeTenants(app: App, signal: AbortSignal): Promise<number> {
  const { digest } = app.tenantSchema;
  const outdated = await app.db.slow.rows<{ id: string; slug: string }>(sql`
    select id, slug from platform.tenants where schema_digest is distinct from ${digest} order by id`);
  if (outdated.length === 0) return 0;
  app.log.info('tenants get the schema of this version', { tenants: outdated.length });
  let upgraded = 0;
  await forEachConcurrently(outdated, SCHEMA_CONCURRENCY, async ({ id, slug }) => {
    signal.throwIfAborted();
    try {
      if (await upgrade(app, id)) upgraded++;
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      app.log.error('a tenant could not be brought up to date', { tenant: slug, error });
    }
  });
  app.log.info('tenants have the schema of this version', { tenants: upgraded });
  return upgraded;
}

/** False when another process was faster, or the tenant is gone. */
async function upgrade(app: App, tenantId: string): Promise<boolean> {
  const done = await withTenantLock(app, tenantId, async (tx, digest) => {
    if (digest === app.tenantSchema.digest) return false;
    await applyTenantSchema(app, tx, tenantId);
    return true;
  });
  return done ?? false;
}
