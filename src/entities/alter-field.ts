// Changing one field of an entity whose records are being written meanwhile. A change that stored
// values could break goes in stages: look at what is stored; tell writers, who from then on obey both
// definitions; wait for those who had not heard; look again; convert and index; make it so. What fails
// on the way is undone. Contract: decisions#field-changes.
import { conflict } from '../errors.ts';
import { sql } from '../runtime/sql.ts';
import { backfill, countValues } from './backfill.ts';
import { buildIndexes, cleanUp, reload, waitForOlderWrites } from './cleanup.ts';
import type { DefinitionLock } from './definition-lock.ts';
import type { Entity, Field } from './field.ts';
import { bumpVersion, deleteFieldRow, insertFieldRow, updateFieldRow } from './field-rows.ts';
import { indexKinds } from './indexes.ts';
import { type Check, storedConflict, validateStored } from './stored-validation.ts';
import { dualWrite } from './values.ts';

/** A change of a field: as it is, as it shall be, and what stored values may break. */
export interface FieldChange {
  entity: Entity;
  field: Field;
  after: Field;
  checks: readonly Check[];
}

/** Makes the change, or throws 409 with the counts of records in its way and leaves all as it was. */
export async function alterField(lock: DefinitionLock, { entity, field, after, checks }: FieldChange): Promise<void> {
  const { app } = lock;
  await validateStored(app, entity, field, after, checks);
  await undoOnError(lock, entity.id, async () => {
    const changing = await beginTransition(lock, entity, field, after);
    await waitForOlderWrites(app, changing);
    await validateStored(app, changing, field, after, checks);
    if (after.slot !== field.slot) await convertValues(lock, changing, field, after);
    const built = after.slot === field.slot ? indexKinds(field) : [];
    const missing = indexKinds(after).filter((kind) => !built.includes(kind));
    await buildIndexes(app, changing, after, missing);
    await lock.transaction(async (tx, catalog) => {
      const current = requireEntity(catalog.byId.get(entity.id));
      const kept = current.retiredSlots.filter((slot) => slot !== after.slot);
      await updateFieldRow(tx, entity.schema, after);
      await bumpVersion(tx, current, { retiredSlots: after.slot === field.slot ? kept : [...kept, field.slot] });
    });
  });
  await finish(lock, entity.id);
}

/** Tells writers what the field is to become. A new slot counts as retired until it is in use. */
async function beginTransition(lock: DefinitionLock, { id }: Entity, field: Field, after: Field): Promise<Entity> {
  return lock.transaction(async (tx, catalog) => {
    const entity = requireEntity(catalog.byId.get(id));
    const isMoved = after.slot !== field.slot;
    lock.needsCleanup = true;
    await updateFieldRow(tx, entity.schema, { ...field, next: after });
    await bumpVersion(
      tx,
      entity,
      isMoved ? { nextSlot: entity.nextSlot + 1, retiredSlots: [...entity.retiredSlots, after.slot] } : {},
    );
    return reload(lock, tx, id);
  });
}

async function convertValues({ app }: DefinitionLock, entity: Entity, field: Field, after: Field): Promise<void> {
  const where = sql`r.data ? ${field.slot}::text and not r.data ? ${after.slot}::text`;
  await backfill(app, entity, where, (data) => {
    const converted = dualWrite(entity, data);
    if (converted[after.slot] === undefined) throw conflict('a stored value cannot be converted');
    return converted;
  });
}

/** Adds a field. A required one is filled with its default in the records there are, or refused. */
export async function addField(lock: DefinitionLock, entity: Entity, field: Field): Promise<void> {
  const { app } = lock;
  if (field.required) await requireFillable(lock, entity, field);
  const kinds = indexKinds(field);
  const reserved = { nextSlot: entity.nextSlot + 1, retiredSlots: [...entity.retiredSlots, field.slot] };
  if (kinds.length === 0 && !field.required) {
    await lock.transaction(async (tx, catalog) => {
      const current = requireEntity(catalog.byId.get(entity.id));
      await insertFieldRow(tx, current, field);
      await bumpVersion(tx, current, { nextSlot: current.nextSlot + 1 });
    });
    return;
  }
  await undoOnError(
    lock,
    entity.id,
    async () => {
      await lock.transaction(async (tx, catalog) => {
        lock.needsCleanup = true;
        await bumpVersion(tx, requireEntity(catalog.byId.get(entity.id)), reserved);
      });
      await buildIndexes(app, entity, field, kinds);
      const optional: Field = { ...field, required: false };
      const added = await lock.transaction(async (tx, catalog) => {
        const current = requireEntity(catalog.byId.get(entity.id));
        await insertFieldRow(tx, current, field.required ? { ...optional, next: field } : field);
        await bumpVersion(tx, current, { retiredSlots: current.retiredSlots.filter((slot) => slot !== field.slot) });
        return reload(lock, tx, entity.id);
      });
      if (field.required) await fillDefault(lock, added, field);
    },
    field,
  );
  lock.needsCleanup = false;
}

async function requireFillable({ app }: DefinitionLock, entity: Entity, field: Field): Promise<void> {
  const records = await countValues(app, entity, field, false);
  if (records > 0 && field.default === undefined) {
    throw storedConflict([
      { path: 'required', message: `${records} record(s) have no value; give a default to fill them with` },
    ]);
  }
  if (records > 1 && field.unique) {
    throw storedConflict([{ path: 'unique', message: `${records} record(s) would share the default` }]);
  }
}

/** Writers give the new field a value from now on; the records from before get the default. */
async function fillDefault(lock: DefinitionLock, entity: Entity, field: Field): Promise<void> {
  await waitForOlderWrites(lock.app, entity);
  await requireFillable(lock, entity, field);
  const value = field.default;
  const where = sql`not r.data ? ${field.slot}::text`;
  if (value !== undefined) await backfill(lock.app, entity, where, (data) => ({ ...data, [field.slot]: value }));
  await lock.transaction(async (tx, catalog) => {
    await updateFieldRow(tx, entity.schema, field);
    await bumpVersion(tx, requireEntity(catalog.byId.get(entity.id)), {});
  });
}

/** Drops a field with all of its values. Without `isConfirmed` only when there are none: else 409 with their count. */
export async function dropField(
  lock: DefinitionLock,
  entity: Entity,
  field: Field,
  isConfirmed: boolean,
): Promise<void> {
  if (!isConfirmed) await requireEmpty(lock, entity, field);
  await undoOnError(lock, entity.id, async () => {
    if (!isConfirmed) {
      const closing = await beginTransition(lock, entity, field, { ...field, required: false, isClosed: true });
      await waitForOlderWrites(lock.app, closing);
      await requireEmpty(lock, closing, field);
    }
    await lock.transaction(async (tx, catalog) => {
      const current = requireEntity(catalog.byId.get(entity.id));
      lock.needsCleanup = true;
      await deleteFieldRow(tx, current, field.id);
      await bumpVersion(tx, current, { retiredSlots: [...current.retiredSlots, field.slot] });
    });
  });
  await finish(lock, entity.id);
}

async function requireEmpty({ app }: DefinitionLock, entity: Entity, field: Field): Promise<void> {
  const count = await countValues(app, entity, field, true);
  if (count === 0) return;
  const message = `${count} record(s) have a value; confirm with ?confirm=${field.key}`;
  throw conflict(`${field.key}: ${message}`, [{ path: 'confirm', message }]);
}

/** Runs the stages of a change; what fails is undone, and an added field is taken out again. */
async function undoOnError(
  lock: DefinitionLock,
  entityId: string,
  stages: () => Promise<void>,
  added?: Field,
): Promise<void> {
  try {
    await stages();
  } catch (error) {
    if (added !== undefined) await removeAdded(lock, entityId, added);
    await finish(lock, entityId);
    throw error;
  }
}

async function removeAdded(lock: DefinitionLock, entityId: string, field: Field): Promise<void> {
  await lock.transaction(async (tx, catalog) => {
    const entity = catalog.byId.get(entityId);
    if (!entity?.fields.some(({ id }) => id === field.id)) return;
    await deleteFieldRow(tx, entity, field.id);
    await bumpVersion(tx, entity, { retiredSlots: [...entity.retiredSlots, field.slot] });
  });
}

/** Clears away what the change has left. What cannot be cleared now is left to the next lock, and logged. */
async function finish(lock: DefinitionLock, entityId: string): Promise<void> {
  try {
    await cleanUp(lock, entityId);
    lock.needsCleanup = false;
  } catch (cause) {
    lock.needsCleanup = true;
    lock.app.log.warn('a change of fields left something to clear away; the next one will', { cause });
  }
}

function requireEntity(entity: Entity | undefined): Entity {
  if (entity === undefined) throw conflict('the entity was deleted meanwhile');
  return entity;
}

/** Slots are numbered into positions of a search vector, of which Postgres has about this many. */
export const SLOT_MAX = 16_000;
