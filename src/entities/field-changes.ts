// Adds, alters, renames and drops one field while records of the entity are being written. A change that
// stored values can violate is a transition: (1) verify the stored records; (2) publish the next definition, so
// that writes satisfy both definitions and are stored in both forms; (3) wait for writes under the old definition
// and verify again; (4) backfill values and build indexes; (5) make the next definition the current one; (6) clean
// up values and indexes that no field uses any more. Cleanup also undoes a change that fails before (5). All of it
// runs under the definition lock, whose next holder cleans up after a crash. Contract: decisions#field-changes.
import { conflict, notFound, ServiceError } from '../errors.ts';
import type { Cause } from '../events/outbox.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { announceChange } from './announcement.ts';
import { backfill, countValues, waitForOlderWrites, waitForStaleCopies } from './backfill.ts';
import { bumpVersion, type Catalog, deleteFieldRow, insertFields, loadCatalog, updateFieldRow } from './catalog.ts';
import { withCleanup } from './cleanup.ts';
import type { DefinitionLock } from './definition-lock.ts';
import { replaceKeyInRoles, requireListedTogether, requireNoDependents } from './dependents.ts';
import type { Entity, Field } from './field.ts';
import { buildIndexes } from './index-building.ts';
import { fieldIndexes, possibleIndexes, type RecordIndex, requiredIndexes } from './indexes.ts';
import { type Check, storedConflict, validateStored } from './stored-validation.ts';
import { dualWrite, type SlotValues } from './values.ts';

/** A change of a field from its current to its next definition. */
export interface FieldChange {
  entity: Entity;
  field: Field;
  next: Field;
  /** The attributes that stored values may violate. */
  checks: readonly Check[];
}

/** Slot numbers are positions in a tsvector, which Postgres limits to 16,383. */
export const SLOT_MAX = 16_000;

/** Adds a field. A required one is filled with its default in existing records; 409 when that is impossible. */
export async function addField(lock: DefinitionLock, entity: Entity, field: Field, cause: Cause): Promise<void> {
  const { app } = lock;
  const indexes = fieldIndexes(entity, field);
  const optional: Field = { ...field, required: false };
  const verify = (at: Entity) => requireFillable(lock, at, field);
  if (field.required) await verify(entity);
  await unlistInRoles(lock, entity, field.key);
  await withCleanup(lock, entity, async () => {
    if (indexes.length > 0) {
      await onEntity(lock, entity, (tx, current) => bumpVersion(tx, current, reserve(current, field.slot)));
      await buildIndexes(app, entity, indexes);
    }
    await onEntity(lock, entity, async (tx, current) => {
      await insertFields(tx, current.schema, current.id, [optional]);
      await bumpVersion(tx, current, { nextSlot: entity.nextSlot + 1, retiredSlots: without(current, field.slot) });
    });
    if (!field.required) return;
    try {
      const changing = await beginTransition(lock, entity, optional, field, verify);
      await fillWithDefault(lock, changing, field);
      await makeCurrent(lock, entity, optional, field, cause);
    } catch (error) {
      await removeField(lock, entity, field, null);
      throw error;
    }
  });
}

/** Alters a field's attributes, its type included. 409 with the counts of violating records leaves it unchanged. */
export async function alterField(
  lock: DefinitionLock,
  { entity, field, next, checks }: FieldChange,
  cause: Cause,
): Promise<void> {
  const isMoved = next.slot !== field.slot;
  const missing = missingIndexes(entity, field, next);
  const verify = (at: Entity) => validateStored(lock.app, at, field, next, checks);
  await verify(entity);
  await withCleanup(lock, entity, async () => {
    if (isMoved || checks.length > 0 || missing.length > 0) {
      const changing = await beginTransition(lock, entity, field, next, verify);
      if (isMoved) await convertValues(lock, changing, field, next);
      await buildIndexes(lock.app, changing, missing);
    }
    await makeCurrent(lock, entity, field, next, isMoved || next.type !== field.type ? cause : null);
  });
}

/** The indexes that the next definition of a field requires and the current one does not. */
function missingIndexes(entity: Entity, field: Field, next: Field): RecordIndex[] {
  const fields = entity.fields.map((other) => (other.id === field.id ? next : other));
  const indexes = possibleIndexes(fields, entity.indexes);
  const present = new Set(requiredIndexes(entity).map(({ name }) => name));
  return requiredIndexes({ ...entity, fields, indexes }).filter(({ name }) => !present.has(name));
}

/**
 * Changes a field's key. During the change, roles that list the old key list both, so that no process ever shows a field that a
 * role hides. 409 when something that names the old key was created meanwhile.
 */
export async function renameField(
  lock: DefinitionLock,
  entity: Entity,
  field: Field,
  key: string,
  cause: Cause,
): Promise<void> {
  const replaceInRoles = async (keys: readonly string[]): Promise<boolean> => {
    const replaced = await onEntity(lock, entity, (tx, current) => replaceKeyInRoles(tx, current, field.key, keys));
    if (replaced > 0) await lock.app.invalidations.publish('role', lock.tenant.id);
    return replaced > 0;
  };
  await unlistInRoles(lock, entity, key);
  const isInRoles = await replaceInRoles([field.key, key]);
  if (isInRoles) await waitForStaleCopies(lock.app);
  try {
    await onEntity(lock, entity, async (tx, current) => {
      const found = current.fields.find(({ id }) => id === field.id);
      if (found === undefined) throw notFound('field');
      await requireNoDependents(tx, current, field);
      await requireListedTogether(tx, current, field.key, key);
      await updateFieldRow(tx, current, { ...found, key });
      await bumpVersion(tx, current, {});
      await announceChange(tx, cause, current, { ...field, key });
    });
  } catch (error) {
    // After any other failure the key may have been changed.
    if (error instanceof ServiceError && error.ecode === 'CONFLICT') await unlistInRoles(lock, entity, key);
    throw error;
  }
  if (isInRoles) await waitForStaleCopies(lock.app);
  await replaceInRoles([]);
}

/** No role may list as visible a key that no field has yet: only an interrupted rename leaves one. */
async function unlistInRoles(lock: DefinitionLock, entity: Entity, key: string): Promise<void> {
  const changed = await onEntity(lock, entity, (tx, current) => replaceKeyInRoles(tx, current, key, [], ['fields']));
  if (changed === 0) return;
  await lock.app.invalidations.publish('role', lock.tenant.id);
  await waitForStaleCopies(lock.app);
}

/**
 * Drops a field with all its values. 409 with their count if there are any, unless confirmed. Roles that list its key as
 * visible no longer do, so that they do not show a later field of that key; where they hide the key, it stays hidden.
 */
export async function dropField(
  lock: DefinitionLock,
  entity: Entity,
  field: Field,
  isConfirmed: boolean,
  cause: Cause,
): Promise<void> {
  const verify = (at: Entity) => requireEmpty(lock, at, field);
  if (!isConfirmed) await verify(entity);
  await withCleanup(lock, entity, async () => {
    if (!isConfirmed) await beginTransition(lock, entity, field, { ...field, required: false, isClosed: true }, verify);
    await removeField(lock, entity, field, cause);
  });
}

/** Stages 2 and 3. A new slot counts as retired until it is in use, so that a failure removes its values. */
async function beginTransition(
  lock: DefinitionLock,
  entity: Entity,
  field: Field,
  next: Field,
  verify: (changing: Entity) => Promise<void>,
): Promise<Entity> {
  const changing = await onEntity(lock, entity, async (tx, current) => {
    await updateFieldRow(tx, current, { ...field, next });
    await bumpVersion(tx, current, next.slot === field.slot ? {} : reserve(current, next.slot));
    return requireEntity(await loadCatalog(tx, lock.tenant), entity);
  });
  await waitForOlderWrites(lock.app, changing);
  // A dry run has just verified the records, and holds the definition's row from here on.
  if (lock.app.db.dryRun === undefined) await verify(changing);
  return changing;
}

/** Stage 5. The change is announced if `cause` is given. */
async function makeCurrent(
  lock: DefinitionLock,
  entity: Entity,
  field: Field,
  next: Field,
  cause: Cause | null,
): Promise<void> {
  await onEntity(lock, entity, async (tx, current) => {
    if (next.type !== field.type || next.slot !== field.slot) await requireNoDependents(tx, current, field);
    await updateFieldRow(tx, current, next);
    const retired = without(current, next.slot);
    await bumpVersion(tx, current, { retiredSlots: next.slot === field.slot ? retired : [...retired, field.slot] });
    if (cause !== null) await announceChange(tx, cause, current, next);
  });
}

/** Removes the field. The drop is announced if `cause` is given. */
async function removeField(lock: DefinitionLock, entity: Entity, field: Field, cause: Cause | null): Promise<void> {
  const changedRoles = await onEntity(lock, entity, async (tx, current) => {
    // Something that names the key may have been created meanwhile. If adding a field failed, it is removed nevertheless.
    if (cause !== null) await requireNoDependents(tx, current, field);
    await deleteFieldRow(tx, current, field.id);
    await bumpVersion(tx, current, { retiredSlots: [...current.retiredSlots, field.slot] });
    if (cause !== null) await announceChange(tx, cause, current, field);
    return replaceKeyInRoles(tx, current, field.key, [], ['fields']);
  });
  if (changedRoles === 0) return;
  await lock.app.invalidations.publish('role', lock.tenant.id);
  // From here on no process uses the old roles, so a field can be added under the same key.
  await waitForStaleCopies(lock.app);
}

async function convertValues({ app }: DefinitionLock, changing: Entity, field: Field, next: Field): Promise<void> {
  const where = sql`r.data ? ${field.slot}::text and not r.data ? ${next.slot}::text`;
  const change = async (data: SlotValues): Promise<SlotValues> => {
    const converted = await dualWrite(changing, data);
    if (converted[next.slot] === undefined) throw conflict('a stored value cannot be converted');
    return converted;
  };
  await backfill(app, changing, { where, change });
}

async function fillWithDefault({ app }: DefinitionLock, changing: Entity, { slot, default: value }: Field) {
  if (value === undefined) return;
  const change = (data: SlotValues): SlotValues => ({ ...data, [slot]: value });
  await backfill(app, changing, { where: sql`not r.data ? ${slot}::text`, change });
}

async function requireFillable({ app }: DefinitionLock, entity: Entity, field: Field): Promise<void> {
  const records = await countValues(app, entity, field, false);
  if (records > 0 && field.default === undefined) {
    const message = `${records} record(s) have no value; a required field needs a default to fill them with`;
    throw storedConflict([{ path: 'required', message }]);
  }
  if (records > 1 && field.unique) {
    throw storedConflict([{ path: 'unique', message: `${records} record(s) would share the default` }]);
  }
}

async function requireEmpty({ app }: DefinitionLock, entity: Entity, field: Field): Promise<void> {
  const count = await countValues(app, entity, field, true);
  if (count === 0) return;
  const message = `${count} record(s) have a value; confirm with ?confirm=${field.key}`;
  throw conflict(`${field.key}: ${message}`, [{ path: 'confirm', message }]);
}

/** One transaction of the change, with the entity's current definition. */
function onEntity<T>(lock: DefinitionLock, { id }: Entity, work: (tx: Tx, current: Entity) => Promise<T>): Promise<T> {
  return lock.transaction((tx, catalog) => work(tx, requireEntity(catalog, { id })));
}

function requireEntity(catalog: Catalog, { id }: Pick<Entity, 'id'>): Entity {
  const entity = catalog.byId.get(id);
  if (entity === undefined) throw conflict('the entity was deleted in the meantime');
  return entity;
}

function reserve({ nextSlot, retiredSlots }: Entity, slot: string) {
  return { nextSlot: nextSlot + 1, retiredSlots: [...retiredSlots, slot] };
}

function without({ retiredSlots }: Entity, slot: string): string[] {
  return retiredSlots.filter((retired) => retired !== slot);
}
