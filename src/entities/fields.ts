// The operations on an entity's fields: list, add, change, drop. Each reads its input, refuses what
// is malformed before anything is touched, and leaves the doing to alter.ts, one change at a time in
// a tenant. Record events are not made: records stay as they are. Contract: decisions#fields, decisions#field-changes.
import { setTimeout as delay } from 'node:timers/promises';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { conflict, forbidden, invalid, invalidField, notFound, type Problem } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import type { JsonObject } from '../runtime/text.ts';
import { addField, alterField, dropField, type FieldChange, SLOT_MAX } from './alter-field.ts';
import { type Catalog, catalogOf } from './catalog.ts';
import { cleanUp, cleanUpInterrupted } from './cleanup.ts';
import { type DefinitionLock, withDefinitionLock } from './definition-lock.ts';
import { replaceKeyInRoles, requireNoDependents } from './dependents.ts';
import { fieldView, getEntity } from './entities.ts';
import type { Entity, Field } from './field.ts';
import { attributeApplies, type FieldDraft, fieldOf, parseField } from './field-input.ts';
import { bumpVersion, updateFieldRow } from './field-rows.ts';
import { specOf } from './field-types.ts';
import { indexKinds } from './indexes.ts';
import { stricterAttributes } from './stored-validation.ts';
import { convertValue } from './values.ts';

/** The fields that the caller may see, in their order. 403 without read permission on the entity. */
export async function listFields(app: App, caller: TenantCaller, entityName: string): Promise<JsonObject[]> {
  return (await getEntity(app, caller, entityName)).fields;
}

/** Adds a field. A required one needs a default when there are records, which are filled with it. */
export async function createField(app: App, caller: TenantCaller, entityName: string, input: JsonObject) {
  return changeLocked(app, caller, async (lock) => {
    const { entity, field } = await lock.transaction(async (_, catalog) => {
      const found = changeable(catalog, entityName);
      if (found.fields.length >= LIMITS.entity.fieldsMax || found.nextSlot > SLOT_MAX) {
        throw conflict(`an entity has at most ${LIMITS.entity.fieldsMax} fields`);
      }
      const draft = readDraft(catalog, found, input);
      if (found.byKey.has(draft.key)) throw taken(draft.key);
      const position = Math.max(0, ...found.fields.map((other) => other.position)) + 1;
      return { entity: found, field: fieldOf(draft, newId(), `f${found.nextSlot}`, position) };
    });
    await addField(lock, entity, field);
    return { entity, fieldId: field.id };
  });
}

/** Changes attributes of a field, its key and type included. Null takes an attribute away. */
export async function updateField(
  app: App,
  caller: TenantCaller,
  entityName: string,
  key: string,
  input: JsonObject,
): Promise<JsonObject> {
  return changeLocked(app, caller, async (lock) => {
    const { change, key: newKey } = await lock.transaction(async (tx, catalog) => {
      const entity = changeable(catalog, entityName);
      const { after, ...planned } = planOf(catalog, entity, fieldIn(entity, key), input);
      if (after.key !== key || after.type !== planned.field.type) await requireNoDependents(tx, entity, planned.field);
      // A rename is done last, by itself: a refusal leaves the old key.
      const underOldKey = { ...planned, after: { ...after, key, ref: { ...after.ref, key } } };
      if (isFree(underOldKey)) {
        lock.needsCleanup = true;
        await updateFieldRow(tx, entity.schema, underOldKey.after);
        await bumpVersion(tx, entity, {});
      }
      return { change: underOldKey, key: after.key };
    });
    const { entity, field } = change;
    if (isFree(change)) await cleanUp(lock, entity.id);
    else await alterField(lock, change);
    if (newKey !== key) await rename(lock, entity, field, newKey);
    lock.needsCleanup = false;
    return { entity, fieldId: field.id };
  });
}

/**
 * Gives a field another key. Roles that name the old one name both in between, so that at no moment,
 * in no process, a field is shown that a role hides.
 */
async function rename(
  lock: DefinitionLock,
  { id }: Entity,
  { id: fieldId, key }: Field,
  newKey: string,
): Promise<void> {
  const inRoles = async (by: readonly string[]): Promise<boolean> => {
    const named = await lock.transaction(async (tx, catalog) => {
      const entity = catalog.byId.get(id);
      return entity === undefined ? 0 : replaceKeyInRoles(tx, entity, key, by);
    });
    if (named > 0) await lock.app.invalidations.publish('role', lock.tenant.id);
    return named > 0;
  };
  const isNamed = await inRoles([key, newKey]);
  if (isNamed) await delay(LIMITS.cacheStaleMs);
  await lock.transaction(async (tx, catalog) => {
    const entity = catalog.byId.get(id);
    const field = entity?.fields.find((candidate) => candidate.id === fieldId);
    if (entity === undefined || field === undefined) throw notFound('field');
    await updateFieldRow(tx, entity.schema, { ...field, key: newKey });
    await bumpVersion(tx, entity, {});
  });
  if (isNamed) await delay(LIMITS.cacheStaleMs);
  await inRoles([]);
}

/** Drops a field and its values. 409 with their count unless `confirm` is the key. Resolves to the field's id. */
export async function deleteField(
  app: App,
  { tenant }: TenantCaller,
  entityName: string,
  key: string,
  confirm?: string,
): Promise<string> {
  return withDefinitionLock(app, tenant, async (lock) => {
    await cleanUpInterrupted(lock);
    const { entity, field } = await lock.transaction(async (tx, catalog) => {
      const found = changeable(catalog, entityName);
      const dropped = fieldIn(found, key);
      if (confirm !== undefined && confirm !== key) throw invalidField('confirm', `must be ${key}`);
      await requireNoDependents(tx, found, dropped);
      return { entity: found, field: dropped };
    });
    await dropField(lock, entity, field, confirm !== undefined);
    return field.id;
  });
}

/** Runs a change in its lock and shows the field as it then is. */
async function changeLocked(
  app: App,
  { tenant }: TenantCaller,
  change: (lock: DefinitionLock) => Promise<{ entity: Entity; fieldId: string }>,
): Promise<JsonObject> {
  const { entity, fieldId } = await withDefinitionLock(app, tenant, async (lock) => {
    await cleanUpInterrupted(lock);
    return change(lock);
  });
  const catalog = await catalogOf(app, tenant);
  const field = catalog.byId.get(entity.id)?.fields.find(({ id }) => id === fieldId);
  if (field === undefined) throw notFound('field');
  return fieldView(catalog, field);
}

function changeable(catalog: Catalog, name: string): Entity {
  const entity = catalog.byName.get(name);
  if (entity === undefined) throw notFound('entity');
  if (entity.isSystem) throw forbidden('the fields of a system entity cannot be changed');
  return entity;
}

function fieldIn(entity: Entity, key: string): Field {
  const field = entity.byKey.get(key);
  if (field === undefined) throw notFound('field');
  return field;
}

function taken(key: string) {
  return conflict(`a field named ${key} exists already`, [{ path: 'key', message: 'exists already' }]);
}

function readDraft(catalog: Catalog, entity: Entity, input: JsonObject): FieldDraft {
  const problems: Problem[] = [];
  const draft = parseField(input, '', { catalog, self: entity }, problems);
  if (problems.length > 0) throw invalid(problems);
  return draft;
}

/** Reads a change against the field as it is; 400 with every problem, 409 for a key that is taken. */
function planOf(catalog: Catalog, entity: Entity, field: Field, input: JsonObject): FieldChange {
  const draft = readDraft(catalog, entity, { ...keptAttributes(catalog, field, input), ...input });
  if (draft.key !== field.key && entity.byKey.has(draft.key)) throw taken(draft.key);
  const inPlace = fieldOf(draft, field.id, field.slot, field.position);
  const moved = fieldOf(draft, field.id, `f${entity.nextSlot}`, field.position);
  const after = isSameForm(field, inPlace) ? inPlace : moved;
  if (after.slot !== field.slot && entity.nextSlot > SLOT_MAX) throw conflict('the entity has no room for this change');
  if (field.default !== undefined && !Object.hasOwn(input, 'default')) keepDefault(field, after);
  return { entity, field, after, checks: stricterAttributes(field, after) };
}

/** The field's attributes as a request would send them, less those that mean nothing for a new type. */
function keptAttributes(catalog: Catalog, field: Field, input: JsonObject): JsonObject {
  const { id: _, default: __, ...attributes } = fieldView(catalog, field);
  const type = (input.type ?? field.type) as Field['type'];
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => attributeApplies(name, type)));
}

function keepDefault(field: Field, after: Field): void {
  const reading = convertValue(field, after, field.default);
  if ('problem' in reading) throw invalidField('default', `${reading.problem}; give another or null`);
  after.default = reading.value;
}

/** Whether no stored value can break the change and no index is to be built for it. */
function isFree({ field, after, checks }: FieldChange): boolean {
  const existing = indexKinds(field);
  return checks.length === 0 && after.slot === field.slot && indexKinds(after).every((kind) => existing.includes(kind));
}

/** Whether both definitions store and index values alike, so that they can stay in their slot. */
function isSameForm(from: Field, to: Field): boolean {
  return specOf(from).family === specOf(to).family && from.targetId === to.targetId;
}
