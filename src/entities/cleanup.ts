// What surrounds a change of fields: waiting for the writers that may still follow the old definition,
// building and dropping indexes beside them, and clearing away what no field owns any more. Clearing
// is the same after a success, a refusal and a crash. Times are milliseconds.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../app.ts';
import { conflict } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import { tenantById } from '../tenants/tenants.ts';
import { backfill } from './backfill.ts';
import { loadCatalog } from './catalog.ts';
import { type DefinitionLock, interruptedTenants, withDefinitionLock } from './definition-lock.ts';
import type { Entity, Field } from './field.ts';
import { bumpVersion, updateFieldRow } from './field-rows.ts';
import { createIndex, type IndexKind, indexKinds, indexName } from './indexes.ts';
import { countDuplicates, storedConflict } from './stored-validation.ts';

const WRITERS_WAIT_MS = 10_000;
const POLL_MS = 20;

/**
 * Resolves when every write is over that began before this call, and so may have been made for an
 * older definition; 409 after ten seconds. A write holds its table's lock from before it looks at
 * the definition until its transaction ends.
 */
export async function waitForOlderWrites(app: App, entity: Entity): Promise<void> {
  const deadline = performance.now() + WRITERS_WAIT_MS;
  const writers = sql`
    select virtualtransaction as id from pg_locks
    where locktype = 'relation' and granted and mode = 'RowExclusiveLock'
      and relation = ${`"${entity.schema}"."${entity.tableName}"`}::regclass
      and database = (select oid from pg_database where datname = current_database())`;
  const early = (await app.db.rows<{ id: string }>(writers)).map(({ id }) => id);
  for (let left = early; left.length > 0; ) {
    if (performance.now() > deadline) throw conflict('records are being written by a long transaction; try again');
    await delay(POLL_MS);
    const still = (await app.db.rows<{ id: string }>(writers)).map(({ id }) => id);
    left = early.filter((id) => still.includes(id));
  }
}

/** Builds indexes while records are written. 409 with the count when values are not unique. */
export async function buildIndexes(app: App, entity: Entity, field: Field, kinds: readonly IndexKind[]): Promise<void> {
  for (const kind of kinds) {
    try {
      await app.db.slow.rows(createIndex(entity, field, kind, true));
    } catch (error) {
      const { code } = (error ?? {}) as { code?: string };
      if (code === '54000') throw conflict('stored values are too large for an index');
      if (code !== '23505') throw error;
      const count = Math.max(2, await countDuplicates(app, entity, field));
      throw storedConflict([{ path: 'unique', message: `${count} record(s) share a value with another` }]);
    }
  }
}

/** Drops indexes that no field calls for, and what a failed build has left. */
async function dropUnusedIndexes(app: App, entity: Entity): Promise<void> {
  const wanted = new Set(
    entity.fields.flatMap((field) => indexKinds(field).map((kind) => indexName(entity, field, kind))),
  );
  const found = await app.db.slow.rows<{ name: string; is_valid: boolean }>(sql`
    select c.relname as name, i.indisvalid as is_valid
    from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    where i.indrelid = to_regclass(${`"${entity.schema}"."${entity.tableName}"`})
      and c.relname ~ '_f[0-9]+_(unique|value|members)$'`);
  for (const { name, is_valid: isValid } of found) {
    if (wanted.has(name) && isValid) continue;
    await app.db.slow.rows(sql`drop index concurrently if exists ${identifier(entity.schema, name)}`);
  }
}

/** Ends what is pending in an entity without doing it, and clears away what no field owns. */
export async function cleanUp(lock: DefinitionLock, entityId: string): Promise<void> {
  const entity = await lock.transaction(async (tx, catalog) => {
    const found = catalog.byId.get(entityId);
    const pending = found?.fields.filter(({ next }) => next !== undefined) ?? [];
    if (found === undefined || pending.length === 0) return found;
    for (const { next: _, ...field } of pending) await updateFieldRow(tx, found.schema, field);
    await bumpVersion(tx, found, {});
    return reload(lock, tx, entityId);
  });
  if (entity === undefined) return;
  await dropUnusedIndexes(lock.app, entity);
  if (entity.retiredSlots.length > 0) await removeRetiredValues(lock, entity);
}

/** The entity as the transaction has made it. */
export async function reload({ tenant }: DefinitionLock, tx: Tx, entityId: string): Promise<Entity> {
  const entity = (await loadCatalog(tx, tenant)).byId.get(entityId);
  if (entity === undefined) throw conflict('the entity was deleted meanwhile');
  return entity;
}

/** Removes the values of retired slots, once nobody can be reading or writing them by an old definition. */
async function removeRetiredValues(lock: DefinitionLock, entity: Entity): Promise<void> {
  const { app } = lock;
  const slots = entity.retiredSlots;
  const where = sql`r.data ?| ${[...slots]}::text[]`;
  await waitForOlderWrites(app, entity);
  const used = await app.db.slow.first(sql`select from ${entity.table} as r where ${where} limit 1`);
  if (used !== undefined) {
    await delay(LIMITS.cacheStaleMs);
    await backfill(app, entity, where, (data) => {
      return Object.fromEntries(Object.entries(data).filter(([slot]) => !slots.includes(slot)));
    });
  }
  await lock.transaction(async (tx, catalog) => {
    const found = catalog.byId.get(entity.id);
    const retiredSlots = found?.retiredSlots.filter((slot) => !slots.includes(slot));
    if (found !== undefined) await bumpVersion(tx, found, { retiredSlots: retiredSlots ?? [] });
  });
}

/** Clears away what a change that was cut off has left anywhere in the tenant. */
export async function cleanUpInterrupted(lock: DefinitionLock): Promise<void> {
  if (!lock.wasInterrupted) return;
  const ids = await lock.transaction(async (_, catalog) => [...catalog.byId.keys()]);
  for (const id of ids) await cleanUp(lock, id);
  lock.needsCleanup = false;
}

/** Clears away what cut-off changes have left, in every tenant. Resolves to how many there were. */
export async function cleanUpInterruptedTenants(app: App): Promise<number> {
  const ids = await interruptedTenants(app);
  for (const id of ids) {
    const tenant = await tenantById(app, id);
    if (tenant !== null) await withDefinitionLock(app, tenant, cleanUpInterrupted);
  }
  return ids.length;
}
