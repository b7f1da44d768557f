// Changes an entity's label, description, search folding and indexes. The name cannot change: paths, roles and subscriptions use
// it. A new index is part of the definition while it is being built, and serves lists once it is ready.
// Failures: 400, 403, 404; 409 while another change of the definitions lasts, and when stored values are too large for an index.
// Contract: decisions#entities, decisions#search, decisions#indexes.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import { identifier, type Queries, sql } from '../runtime/sql.ts';
import { bumpVersion, type Catalog, entityFor } from './catalog.ts';
import { cleanUpInterrupted, withCleanup } from './cleanup.ts';
import { readIndexes } from './declared-indexes.ts';
import { EntityChange, type EntityView, type IndexInput } from './definition.ts';
import { type DefinitionLock, withDefinitionLock } from './definition-lock.ts';
import { requireIndexesFit } from './definition-size.ts';
import { getEntity } from './entities.ts';
import type { DeclaredIndex, Entity } from './field.ts';
import { buildIndexes } from './index-building.ts';
import { declaredIndexes, declaredName } from './indexes.ts';
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
  const { searchFolding, indexes, ...names } = check(EntityChange, body);
  if (searchFolding === undefined && indexes === undefined) await setNames(app.db, entity, names);
  else {
    await withDefinitionLock(app, tenant, async (lock) => {
      // Indexes first, because only they can fail.
      if (indexes !== undefined) await changeIndexes(lock, entity.id, indexes);
      await lock.transaction(async (tx, catalog) => {
        const current = existing(catalog, entity.id);
        await setNames(tx, current, names);
        if (searchFolding === undefined || current.searchFolding === searchFolding) return;
        await changeSearchFolding(tx, current, searchFolding);
      });
    });
    if (searchFolding !== undefined) nudgeSearchRebuild(app);
  }
  await app.invalidations.publish('catalog', tenant.id);
  return getEntity(app, caller, name);
}

/** A name that is not given keeps its value in the database, since the cached definitions may be older. */
async function setNames(
  queries: Queries,
  entity: Entity,
  { label, description }: Pick<EntityChange, 'label' | 'description'>,
): Promise<void> {
  await queries.rows(sql`
    update ${identifier(entity.schema, 'entity_definitions')}
    set label = case when ${label === undefined}::boolean then label else ${label ?? null} end,
      description = case when ${description === undefined}::boolean then description else ${description ?? null} end,
      updated_at = now()
    where id = ${entity.id}::uuid`);
}

/** Replaces the entity's indexes. Resolves when the new ones are ready; if one cannot be built, nothing changes. */
async function changeIndexes(lock: DefinitionLock, entityId: string, input: readonly IndexInput[]): Promise<void> {
  await cleanUpInterrupted(lock);
  const { entity, wanted } = await lock.transaction(async (tx, catalog) => {
    const found = existing(catalog, entityId);
    const declared = readIndexes(found.fields, input);
    const more = declared.length - found.indexes.length;
    if (more > 0) await requireIndexesFit(tx, found.schema, more);
    return { entity: found, wanted: declared };
  });
  const present = new Set(entity.indexes.map((index) => declaredName(entity, index)));
  const missing = wanted.filter((index) => !present.has(declaredName(entity, index)));
  await withCleanup(lock, entity, async () => {
    if (missing.length > 0) {
      const building = missing.map(({ columns }) => ({ columns, isBuilding: true }));
      await setIndexes(lock, entity, [...entity.indexes, ...building]);
      await buildIndexes(lock.app, entity, declaredIndexes({ ...entity, indexes: missing }));
    }
    await setIndexes(lock, entity, wanted);
  });
}

async function setIndexes(lock: DefinitionLock, { id }: Entity, indexes: readonly DeclaredIndex[]): Promise<void> {
  await lock.transaction(async (tx, catalog) => bumpVersion(tx, existing(catalog, id), { indexes }));
}

function existing(catalog: Catalog, id: string): Entity {
  const entity = catalog.byId.get(id);
  if (entity === undefined) throw notFound('entity');
  return entity;
}
