// Changes an entity's label, description and search folding. The name cannot change: paths, roles and subscriptions use it.
// Failures: 400, 403, 404, 409 while another change of the definitions lasts.
// Contract: decisions#entities, decisions#search.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import { identifier, sql } from '../runtime/sql.ts';
import { entityFor } from './catalog.ts';
import { EntityChange, type EntityView } from './definition.ts';
import { withDefinitionLock } from './definition-lock.ts';
import { getEntity } from './entities.ts';
import { changeSearchFolding, nudgeSearchRebuild } from './search-rebuild.ts';

/** Omitted members keep their values. After a change of `searchFolding` the terms are rebuilt in the background. */
export async function updateEntity(
  app: App,
  caller: TenantCaller,
  name: string,
  body: EntityChange,
): Promise<EntityView> {
  const { tenant } = caller;
  const entity = await entityFor(app, caller, name);
  const { label, description, searchFolding } = check(EntityChange, body);
  await app.db.rows(sql`
    update ${identifier(entity.schema, 'entity_definitions')}
    set label = ${label === undefined ? entity.label : label},
      description = ${description === undefined ? entity.description : description},
      updated_at = now()
    where id = ${entity.id}::uuid`);
  if (searchFolding !== undefined) {
    await withDefinitionLock(app, tenant, (lock) =>
      lock.transaction(async (tx, catalog) => {
        const current = catalog.byId.get(entity.id);
        if (current === undefined) throw notFound('entity');
        if (current.searchFolding !== searchFolding) await changeSearchFolding(tx, current, searchFolding);
      }),
    );
    nudgeSearchRebuild(app);
  }
  await app.invalidations.publish('catalog', tenant.id);
  return getEntity(app, caller, name);
}
