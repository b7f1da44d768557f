// Changing one field of an entity whose records are being written meanwhile. A change that stored
// values could break goes in stages: look at what is stored; tell writers, who from then on obey both
// definitions; wait for those who had not heard; look again; convert and index; make it so. What fails
// on the way is undone. Contract: section 4 of the decisions.
import { conflict } from '../errors.ts';
import { sql } from '../runtime/sql.ts';
import type { Entity, Field } from './field.ts';
import { indexKinds } from './indexes.ts';
import { countValues, rewriteAll } from './rewrite.ts';
import { buildIndexes, reload, settle, writersGone } from './settle.ts';
import { type Check, refusal, requireStanding } from './stored-check.ts';
import { addField, bumpVersion, removeField, storeField } from './stored-field.ts';
import type { Turn } from './turn.ts';
import { withNext } from './values.ts';

/** A change of a field: as it is, as it shall be, and what stored values may break. */
export interface Change {
  entity: Entity;
  field: Field;
  after: Field;
  checks: readonly Check[];
}

/** Makes the change, or throws 409 with the counts of records in its way and leaves all as it was. */
export async function alterField(turn: Turn, { entity, field, after, checks }: Change): Promise<void> {
  const { app } = turn;
  await requireStanding(app, entity, field, after, checks);
  await staged(turn, entity.id, async () => {
    const changing = await announceNext(turn, entity, field, after);
    await writersGone(app, changing);
    await requireStanding(app, changing, field, after, checks);
    if (after.slot !== field.slot) await convertAll(turn, changing, field, after);
    const built = after.slot === field.slot ? indexKinds(field) : [];
    const missing = indexKinds(after).filter((kind) => !built.includes(kind));
    await buildIndexes(app, changing, after, missing);
    await turn.step(async (tx, catalog) => {
      const current = standing(catalog.byId.get(entity.id));
      const kept = current.retiredSlots.filter((slot) => slot !== after.slot);
      await storeField(tx, entity.schema, after);
      await bumpVersion(tx, current, { retiredSlots: after.slot === field.slot ? kept : [...kept, field.slot] });
    });
  });
  await clear(turn, entity.id);
}

/** Tells writers what the field is to become. A new slot counts as retired until it is in use. */
async function announceNext(turn: Turn, { id }: Entity, field: Field, after: Field): Promise<Entity> {
  return turn.step(async (tx, catalog) => {
    const entity = standing(catalog.byId.get(id));
    const isMoved = after.slot !== field.slot;
    turn.isDirty = true;
    await storeField(tx, entity.schema, { ...field, next: after });
    await bumpVersion(
      tx,
      entity,
      isMoved ? { nextSlot: entity.nextSlot + 1, retiredSlots: [...entity.retiredSlots, after.slot] } : {},
    );
    return reload(turn, tx, id);
  });
}

async function convertAll({ app }: Turn, entity: Entity, field: Field, after: Field): Promise<void> {
  const where = sql`r.data ? ${field.slot}::text and not r.data ? ${after.slot}::text`;
  await rewriteAll(app, entity, where, (data) => {
    const converted = withNext(entity, data);
    if (converted[after.slot] === undefined) throw conflict('a stored value cannot be converted');
    return converted;
  });
}

/** Adds a field. A required one is filled with its default in the records there are, or refused. */
export async function appendField(turn: Turn, entity: Entity, field: Field): Promise<void> {
  const { app } = turn;
  if (field.required) await requireFillable(turn, entity, field);
  const kinds = indexKinds(field);
  const reserved = { nextSlot: entity.nextSlot + 1, retiredSlots: [...entity.retiredSlots, field.slot] };
  if (kinds.length === 0 && !field.required) {
    await turn.step(async (tx, catalog) => {
      const current = standing(catalog.byId.get(entity.id));
      await addField(tx, current, field);
      await bumpVersion(tx, current, { nextSlot: current.nextSlot + 1 });
    });
    return;
  }
  await staged(
    turn,
    entity.id,
    async () => {
      await turn.step(async (tx, catalog) => {
        turn.isDirty = true;
        await bumpVersion(tx, standing(catalog.byId.get(entity.id)), reserved);
      });
      await buildIndexes(app, entity, field, kinds);
      const optional: Field = { ...field, required: false };
      const added = await turn.step(async (tx, catalog) => {
        const current = standing(catalog.byId.get(entity.id));
        await addField(tx, current, field.required ? { ...optional, next: field } : field);
        await bumpVersion(tx, current, { retiredSlots: current.retiredSlots.filter((slot) => slot !== field.slot) });
        return reload(turn, tx, entity.id);
      });
      if (field.required) await fill(turn, added, field);
    },
    field,
  );
  turn.isDirty = false;
}

async function requireFillable({ app }: Turn, entity: Entity, field: Field): Promise<void> {
  const records = await countValues(app, entity, field, false);
  if (records > 0 && field.default === undefined) {
    throw refusal([
      { path: 'required', message: `${records} record(s) have no value; give a default to fill them with` },
    ]);
  }
  if (records > 1 && field.unique) {
    throw refusal([{ path: 'unique', message: `${records} record(s) would share the default` }]);
  }
}

/** Writers give the new field a value from now on; the records from before get the default. */
async function fill(turn: Turn, entity: Entity, field: Field): Promise<void> {
  await writersGone(turn.app, entity);
  await requireFillable(turn, entity, field);
  const value = field.default;
  const where = sql`not r.data ? ${field.slot}::text`;
  if (value !== undefined) await rewriteAll(turn.app, entity, where, (data) => ({ ...data, [field.slot]: value }));
  await turn.step(async (tx, catalog) => {
    await storeField(tx, entity.schema, field);
    await bumpVersion(tx, standing(catalog.byId.get(entity.id)), {});
  });
}

/** Drops a field with all of its values. Without `isConfirmed` only when there are none: else 409 with their count. */
export async function dropField(turn: Turn, entity: Entity, field: Field, isConfirmed: boolean): Promise<void> {
  if (!isConfirmed) await requireEmpty(turn, entity, field);
  await staged(turn, entity.id, async () => {
    if (!isConfirmed) {
      const closing = await announceNext(turn, entity, field, { ...field, required: false, isClosed: true });
      await writersGone(turn.app, closing);
      await requireEmpty(turn, closing, field);
    }
    await turn.step(async (tx, catalog) => {
      const current = standing(catalog.byId.get(entity.id));
      turn.isDirty = true;
      await removeField(tx, current, field.id);
      await bumpVersion(tx, current, { retiredSlots: [...current.retiredSlots, field.slot] });
    });
  });
  await clear(turn, entity.id);
}

async function requireEmpty({ app }: Turn, entity: Entity, field: Field): Promise<void> {
  const count = await countValues(app, entity, field, true);
  if (count === 0) return;
  const message = `${count} record(s) have a value; confirm with ?confirm=${field.key}`;
  throw conflict(`${field.key}: ${message}`, [{ path: 'confirm', message }]);
}

/** Runs the stages of a change; what fails is undone, and an added field is taken out again. */
async function staged(turn: Turn, entityId: string, stages: () => Promise<void>, added?: Field): Promise<void> {
  try {
    await stages();
  } catch (error) {
    if (added !== undefined) await takeBack(turn, entityId, added);
    await clear(turn, entityId);
    throw error;
  }
}

async function takeBack(turn: Turn, entityId: string, field: Field): Promise<void> {
  await turn.step(async (tx, catalog) => {
    const entity = catalog.byId.get(entityId);
    if (!entity?.fields.some(({ id }) => id === field.id)) return;
    await removeField(tx, entity, field.id);
    await bumpVersion(tx, entity, { retiredSlots: [...entity.retiredSlots, field.slot] });
  });
}

/** Clears away what the change has left. What cannot be cleared now is left to the next turn, and logged. */
async function clear(turn: Turn, entityId: string): Promise<void> {
  try {
    await settle(turn, entityId);
    turn.isDirty = false;
  } catch (cause) {
    turn.isDirty = true;
    turn.app.log.warn('a change of fields left something to clear away; the next one will', { cause });
  }
}

function standing(entity: Entity | undefined): Entity {
  if (entity === undefined) throw conflict('the entity was deleted meanwhile');
  return entity;
}

/** Slots are numbered into positions of a search vector, of which Postgres has about this many. */
export const SLOT_MAX = 16_000;
