// The demo tenant: created on an empty database through the same operations as REST; its first calls are printed on
// the console. An interrupted start leaves a tenant marked as unfinished, whose keys were never shown; the next start
// replaces it.
// Contract: decisions#configuration.
import { systemCaller, type TenantCaller } from './access/caller.ts';
import { deleteTenant } from './admin/tenant-deletion.ts';
import { createTenant, updateTenant } from './admin/tenants.ts';
import type { App } from './app.ts';
import { createDemoAccess, type DemoKeys } from './demo/access.ts';
import { anotherKey, firstCalls, firstTenant } from './demo/console.ts';
import { DEMO_ENTITIES } from './demo/entities.ts';
import { demoRecords } from './demo/records.ts';
import { createEntity } from './entities/entities.ts';
import { createRecord } from './records/write/write.ts';
import { sql } from './runtime/sql.ts';
import { type Tenant, tenantBySlug } from './tenants/tenants.ts';

const SLUG = 'demo';
const NAME = 'Demo';
const UNFINISHED = 'Demo (unfinished)';

/**
 * Creates the demo if it is configured and there is no tenant. Resolves to the lines for the console: the first calls, or
 * how to get a key. Aborts between two entities.
 */
export async function prepareDemo(app: App, signal: AbortSignal): Promise<string[]> {
  if (app.config.demo) await removeUnfinished(app);
  const tenants = await app.db.rows<{ slug: string }>(sql`select slug from platform.tenants limit 2`);
  if (tenants.length > 0) return (await tenantBySlug(app, SLUG)) === null ? [] : anotherKey(app, SLUG);
  if (!app.config.demo) return firstTenant(app);
  return firstCalls(app, SLUG, await createDemo(app, signal));
}

async function removeUnfinished(app: App): Promise<void> {
  const tenant = await tenantBySlug(app, SLUG);
  if (tenant?.name !== UNFINISHED) return;
  await deleteTenant(app, SLUG, SLUG);
  app.log.info('unfinished demo tenant deleted');
}

async function createDemo(app: App, signal: AbortSignal): Promise<DemoKeys & { owner: string }> {
  const startedAt = Date.now();
  const { apiKey } = await createTenant(app, { slug: SLUG, name: UNFINISHED });
  const caller = systemCaller((await tenantBySlug(app, SLUG)) as Tenant, { triggeredBy: 'system' });
  const ids: Record<string, string[]> = {};
  for (const definition of DEMO_ENTITIES) {
    signal.throwIfAborted();
    const { name } = await createEntity(app, caller, definition);
    ids[name] = await fill(app, caller, name, ids);
  }
  const keys = await createDemoAccess(app, caller);
  await updateTenant(app, SLUG, { name: NAME });
  app.log.info('demo tenant created', { slug: SLUG, durationMs: Date.now() - startedAt });
  return { owner: apiKey, ...keys };
}

/** Creates the records of one entity, all or none. Resolves to their ids. */
async function fill(
  app: App,
  caller: TenantCaller,
  entity: string,
  known: Record<string, string[]>,
): Promise<string[]> {
  return app.db.slow.begin(async (tx) => {
    const ids: string[] = [];
    for (const body of demoRecords(entity, known)) {
      const { row } = await createRecord({ app, caller, tx }, entity, body);
      ids.push(row.id);
    }
    return ids;
  });
}
