// Tenants whose schema is of another version than this process get the schema's files applied again,
// at start, before it listens; with none of them it costs one query. Processes that start together
// share the work, tenant by tenant. A tenant that cannot be brought up to date is logged and shown by
// the schema health check; it does not keep the others from being served.
import type { App } from '../app.ts';
import { ServiceError } from '../errors.ts';
import { sql } from '../runtime/sql.ts';
import { applyTenantSchema, holdingTenant } from './provision.ts';

/** Tenants completed at the same time: the connections for slow work. */
export const AT_ONCE = 2;

/** Brings all tenants up to date; resolves to how many this process has. Rejects when the database is away. */
export async function upgradeTenants(app: App, signal: AbortSignal): Promise<number> {
  const { digest } = app.tenantSchema;
  const outdated = await app.db.slow.rows<{ id: string; slug: string }>(sql`
    select id, slug from platform.tenants where schema_digest is distinct from ${digest} order by id`);
  if (outdated.length === 0) return 0;
  app.log.info('tenants get the schema of this version', { tenants: outdated.length });
  let upgraded = 0;
  await atOnce(outdated, AT_ONCE, async ({ id, slug }) => {
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
  const done = await holdingTenant(app, tenantId, async (tx, digest) => {
    if (digest === app.tenantSchema.digest) return false;
    await applyTenantSchema(app, tx, tenantId);
    return true;
  });
  return done ?? false;
}

/** Runs `work` for each item, at most `limit` at a time; the first failure ends it once those in flight have ended. */
export async function atOnce<T>(items: readonly T[], limit: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const failures: unknown[] = [];
  const run = async (): Promise<void> => {
    for (const item of queue) {
      try {
        await work(item);
      } catch (error) {
        failures.push(error);
      }
      if (failures.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: limit }, run));
  if (failures.length > 0) throw failures[0];
}
