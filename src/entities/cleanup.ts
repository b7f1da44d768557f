// Cleanup after changes of definitions: ends pending transitions and builds of indexes, drops indexes that no field uses,
// builds missing indexes, and removes the values of retired slots. It is idempotent, and the same after success, failure and
// crash.
// Contract: decisions#field-changes.
import { type App, perApp } from '../app.ts';
import { forEachConcurrently } from '../runtime/concurrency.ts';
import { Retries } from '../runtime/retries.ts';
import { sql } from '../runtime/sql.ts';
import { forTenant } from '../runtime/work.ts';
import { isDeleted, tenantById } from '../tenants/tenants.ts';
import { backfill, waitForOlderWrites, waitForStaleCopies } from './backfill.ts';
import { bumpVersion, loadCatalog, updateFieldRow } from './catalog.ts';
import { type DefinitionLock, interruptedTenants, isBeingChanged, withDefinitionLock } from './definition-lock.ts';
import type { Entity } from './field.ts';
import { settleIndexes } from './index-building.ts';
import type { SlotValues } from './values.ts';

/** Ends an entity's transitions and builds without completing them, and removes what no field uses. A dry run leaves nothing to remove. */
export async function cleanUp(lock: DefinitionLock, entityId: string): Promise<void> {
  if (lock.app.db.dryRun !== undefined) return;
  const entity = await lock.transaction(async (tx, catalog) => {
    const found = catalog.byId.get(entityId);
    if (found === undefined) return undefined;
    const pending = found.fields.filter(({ next }) => next !== undefined);
    const ready = found.indexes.filter(({ isBuilding }) => isBuilding !== true);
    if (pending.length === 0 && ready.length === found.indexes.length) return found;
    for (const { next: _, ...field } of pending) await updateFieldRow(tx, found, field);
    await bumpVersion(tx, found, { indexes: ready });
    return (await loadCatalog(tx, lock.tenant)).byId.get(entityId);
  });
  if (entity === undefined) return;
  await settleIndexes(lock.app, entity);
  if (entity.retiredSlots.length > 0) await removeRetiredValues(lock, entity);
}

/** Stage 6, after success and failure. A cleanup that fails is logged and left to the next holder of the lock. */
export async function withCleanup(lock: DefinitionLock, entity: Entity, change: () => Promise<void>): Promise<void> {
  lock.needsCleanup = true;
  try {
    await change();
  } finally {
    try {
      await cleanUp(lock, entity.id);
      lock.needsCleanup = false;
    } catch (cause) {
      const { app, tenant } = lock;
      if (!(await isDeleted(app, tenant.id))) {
        app.log.warn('cleanup of a change of definitions failed; the next change will repeat it', { cause });
      }
    }
  }
}

/** Removes the values of retired slots, once no write and no cached definition uses them. */
async function removeRetiredValues(lock: DefinitionLock, entity: Entity): Promise<void> {
  const { app } = lock;
  const slots = entity.retiredSlots;
  const where = sql`r.data ?| ${[...slots]}::text[]`;
  await waitForOlderWrites(app, entity);
  const used = await app.db.slow.first(sql`select from ${entity.table} as r where ${where} limit 1`);
  if (used !== undefined) {
    await waitForStaleCopies(app);
    const change = (data: SlotValues) =>
      Object.fromEntries(Object.entries(data).filter(([slot]) => !slots.includes(slot)));
    // Keeps the versions: the drop is announced already, and no event would tell clients that versions changed again.
    await backfill(app, entity, { where, change, keepsVersions: true });
  }
  await lock.transaction(async (tx, catalog) => {
    const found = catalog.byId.get(entity.id);
    if (found === undefined) return;
    await bumpVersion(tx, found, { retiredSlots: found.retiredSlots.filter((slot) => !slots.includes(slot)) });
  });
}

/** Cleans up all entities of the tenant when the previous holder of the lock was interrupted. */
export async function cleanUpInterrupted(lock: DefinitionLock): Promise<void> {
  if (!lock.wasInterrupted) return;
  const ids = await lock.transaction(async (_, catalog) => [...catalog.byId.keys()]);
  for (const id of ids) await cleanUp(lock, id);
  lock.needsCleanup = false;
}

/** Tenants that are cleaned up at once, so that a tenant with many records, or with locks to wait for, delays no other. */
const TENANTS_AT_ONCE = 4;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 5 * 60_000;
const retriesOf = perApp(() => new Retries(FIRST_PAUSE_MS, LONGEST_PAUSE_MS));

/**
 * Cleans up interrupted changes of every tenant. A cleanup that fails is left to a later round, and logged when its cause is
 * new. Resolves to the number of tenants that have been cleaned up.
 */
export async function cleanUpInterruptedTenants(app: App): Promise<number> {
  const interrupted = await interruptedTenants(app);
  const retries = retriesOf(app);
  let cleaned = 0;
  const due = retries.due(interrupted, (id) => id);
  await forEachConcurrently(due, TENANTS_AT_ONCE, async (id) => {
    const tenant = await tenantById(app, id);
    if (tenant === null) return;
    try {
      await forTenant(id, () => withDefinitionLock(app, tenant, cleanUpInterrupted));
      retries.succeeded(id);
      cleaned++;
    } catch (cause) {
      // Another process has taken the lock first.
      if (isBeingChanged(cause)) return;
      if (!retries.failed(id, cause)) return;
      app.log.warn('an interrupted change of definitions is not cleaned up yet', { tenant: tenant.slug, cause });
    }
  });
  return cleaned;
}
