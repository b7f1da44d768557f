// The operations on an entity's fields: list, add, change, drop. Each parses its input and plans the change, and
// field-changes.ts makes it, one at a time per tenant. They emit no record events.
// Contract: decisions#fields, decisions#field-changes.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { conflict, forbidden, invalidField, notFound } from '../errors.ts';
import { notifyCommitted } from '../events/publication.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { changerOf } from './announcement.ts';
import { type Catalog, catalogOf } from './catalog.ts';
import { cleanUpInterrupted } from './cleanup.ts';
import type { FieldInput, FieldPatch, FieldView } from './definition.ts';
import { type DefinitionLock, withDefinitionLock } from './definition-lock.ts';
import { requireFieldsFit } from './definition-size.ts';
import { requireNoDependents } from './dependents.ts';
import { fieldView, getEntity } from './entities.ts';
import type { Entity, Field } from './field.ts';
import { addField, alterField, dropField, type FieldChange, renameField, SLOT_MAX } from './field-changes.ts';
import { attributeApplies, definitionValues, type FieldDraft, fieldOf, readField } from './field-input.ts';
import { FIELD_TYPE_NAMES, specOf } from './field-types.ts';
import { withMatches } from './patterns.ts';
import { stricterAttributes } from './stored-validation.ts';
import { convertValue } from './values.ts';

/** The fields that the caller may see, in their order. 403 without read permission on the entity. */
export async function listFields(app: App, caller: TenantCaller, entityName: string): Promise<FieldView[]> {
  return (await getEntity(app, caller, entityName)).fields;
}

/** Adds a field. A required one needs a default if there are records, which are filled with it. */
export async function createField(
  app: App,
  caller: TenantCaller,
  entityName: string,
  input: FieldInput,
): Promise<FieldView> {
  return changeField(app, caller, async (lock) => {
    const change = await lock.transaction(async (tx, catalog) => {
      const entity = changeable(catalog, entityName);
      if (entity.fields.length >= LIMITS.entity.fieldsMax || entity.nextSlot > SLOT_MAX) {
        throw conflict(`an entity has at most ${LIMITS.entity.fieldsMax} fields`);
      }
      const draft = await withMatches(definitionValues([input]), () => readField(input, { catalog, self: entity }));
      if (entity.byKey.has(draft.key)) throw keyTaken(draft.key);
      const position = Math.max(0, ...entity.fields.map((other) => other.position)) + 1;
      const field = fieldOf(draft, newId(), `f${entity.nextSlot}`, position);
      await requireFieldsFit(tx, entity.schema, { before: entity.fields, after: [...entity.fields, field] });
      return { entity, field };
    });
    await addField(lock, change.entity, change.field, changerOf(caller));
    return change;
  });
}

/** Changes attributes of a field, its key and type included; null removes an attribute. */
export async function updateField(
  app: App,
  caller: TenantCaller,
  entityName: string,
  key: string,
  input: FieldPatch,
): Promise<FieldView> {
  return changeField(app, caller, async (lock) => {
    const { newKey, ...change } = await lock.transaction(async (tx, catalog) => {
      const entity = changeable(catalog, entityName);
      const current = fieldIn(entity, key);
      const matched = definitionValues([{ ...current, ...input }]);
      const { next, ...planned } = await withMatches(matched, () => plan(catalog, entity, current, input));
      const after = entity.fields.map((field) => (field.id === next.id ? next : field));
      await requireFieldsFit(tx, entity.schema, { before: entity.fields, after });
      if (next.key !== key || next.type !== planned.field.type) await requireNoDependents(tx, entity, planned.field);
      // The rename is a separate, last change: if the first one conflicts, the field keeps its old key.
      return { ...planned, next: { ...next, key, ref: { ...next.ref, key } }, newKey: next.key };
    });
    const cause = changerOf(caller);
    await alterField(lock, change, cause);
    if (newKey !== key) await renameField(lock, change.entity, change.field, newKey, cause);
    return change;
  });
}

/** Drops a field and its values. 409 with their count unless `confirm` is the key. Resolves to the field's id. */
export async function deleteField(
  app: App,
  caller: TenantCaller,
  entityName: string,
  key: string,
  confirm?: string,
): Promise<string> {
  const { tenant } = caller;
  const id = await withDefinitionLock(app, tenant, async (lock) => {
    await cleanUpInterrupted(lock);
    const { entity, field } = await lock.transaction(async (tx, catalog) => {
      const found = changeable(catalog, entityName);
      const dropped = fieldIn(found, key);
      if (confirm !== undefined && confirm !== key) throw invalidField('confirm', `must be ${key}`);
      await requireNoDependents(tx, found, dropped);
      return { entity: found, field: dropped };
    });
    await dropField(lock, entity, field, confirm !== undefined, changerOf(caller));
    return field.id;
  });
  notifyCommitted(app, { tenantId: tenant.id, change: null });
  return id;
}

/** Runs a change under the definition lock and returns the resulting field. */
async function changeField(
  app: App,
  { tenant }: TenantCaller,
  change: (lock: DefinitionLock) => Promise<{ entity: Entity; field: Field }>,
): Promise<FieldView> {
  const { entity, field } = await withDefinitionLock(app, tenant, async (lock) => {
    await cleanUpInterrupted(lock);
    return change(lock);
  });
  notifyCommitted(app, { tenantId: tenant.id, change: null });
  const catalog = await catalogOf(app, tenant);
  const changed = catalog.byId.get(entity.id)?.fields.find(({ id }) => id === field.id);
  if (changed === undefined) throw notFound('field');
  return fieldView(catalog, changed);
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

function keyTaken(key: string) {
  return conflict(`a field named ${key} already exists`, [{ path: 'key', message: 'already exists' }]);
}

/** The change from the current definition to the requested one. 400 with every problem, 409 for a key that is taken. */
function plan(catalog: Catalog, entity: Entity, field: Field, input: FieldPatch): FieldChange {
  const attributes = { ...keptAttributes(catalog, field, input), ...input };
  const draft = readField(attributes as FieldInput, { catalog, self: entity });
  if (draft.key !== field.key && entity.byKey.has(draft.key)) throw keyTaken(draft.key);
  const isMoved = !isStoredAlike(field, draft);
  if (isMoved && entity.nextSlot > SLOT_MAX) throw conflict('the entity has reached its limit of field changes');
  const next = fieldOf(draft, field.id, isMoved ? `f${entity.nextSlot}` : field.slot, field.position);
  if (field.default !== undefined && !Object.hasOwn(input, 'default')) keepDefault(field, next);
  return { entity, field, next, checks: stricterAttributes(field, next) };
}

/** The field's attributes as a request would send them, without those that the new type lacks. */
function keptAttributes(catalog: Catalog, field: Field, input: FieldPatch): Partial<FieldInput> {
  const { id: _, default: __, ...attributes } = fieldView(catalog, field);
  // The patch is not checked yet.
  const type = FIELD_TYPE_NAMES.find((name) => name === input.type) ?? field.type;
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => attributeApplies(name, type)));
}

function keepDefault(field: Field, next: Field): void {
  const parsed = convertValue(field, next, field.default);
  if ('problem' in parsed) throw invalidField('default', `${parsed.problem}; send another default or null`);
  next.default = parsed.value;
}

/** Whether both definitions store and index values alike, so that the values can stay in their slot. */
function isStoredAlike(from: Field, to: FieldDraft): boolean {
  return specOf(from).family === specOf(to).family && from.targetId === to.targetId;
}
