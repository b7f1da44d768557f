// Gives up the order of ids: from then on records of an entity may have ids that are not in the order of `createdAt`, such as
// ids from a file. The index by time is built before the first of them; entities without it have one index less to update per
// creation.
// Failures: 409 while another change of the definitions lasts.
// Contract: decisions#order.
import type { App } from '../app.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { bumpVersion } from './catalog.ts';
import { cleanUpInterrupted } from './cleanup.ts';
import { withDefinitionLock } from './definition-lock.ts';
import type { Entity } from './field.ts';
import { buildIndexes } from './index-building.ts';
import { timeIndex } from './indexes.ts';

/** Does nothing when the entity has already given up the order, or has been deleted. */
export async function leaveIdOrder(app: App, tenant: Tenant, { id }: Pick<Entity, 'id'>): Promise<void> {
  await withDefinitionLock(app, tenant, async (lock) => {
    await cleanUpInterrupted(lock);
    const entity = await lock.transaction(async (_, catalog) => catalog.byId.get(id));
    if (entity?.isInIdOrder !== true) return;
    lock.needsCleanup = true;
    await buildIndexes(app, entity, [timeIndex(entity)]);
    await lock.transaction(async (tx, catalog) => {
      const current = catalog.byId.get(id);
      if (current !== undefined) await bumpVersion(tx, current, { isInIdOrder: false });
    });
    lock.needsCleanup = false;
  });
}
