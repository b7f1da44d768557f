// The rows of field_definitions and the entity's version: what every step of a change writes. All of
// it runs in the step's transaction, under the definitions lock. A version that moved makes writers
// look at the definition again.
import { identifier, join, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { insertFields, rulesOf } from './entities.ts';
import type { Entity, Field } from './field.ts';

/** Stores every attribute of a field that exists, and what it is being changed into, if anything. */
export async function updateFieldRow(tx: Tx, schema: string, field: Field): Promise<void> {
  await tx.rows(sql`
    update ${identifier(schema, 'field_definitions')}
    set key = ${field.key},
      slot = ${field.slot},
      type = ${field.type},
      label = ${field.label},
      description = ${field.description},
      is_required = ${field.required}::boolean,
      is_unique = ${field.unique}::boolean,
      is_indexed = ${field.indexed}::boolean,
      default_value = ${field.default === undefined ? null : JSON.stringify(field.default)}::text::jsonb,
      rules = ${JSON.stringify(rulesOf(field))}::text::jsonb,
      target_id = ${field.targetId}::uuid,
      on_delete = ${field.onDelete},
      next = ${nextOf(field)}::text::jsonb
    where id = ${field.id}::uuid`);
}

function nextOf({ next }: Field): string | null {
  if (next === undefined) return null;
  const { ref: _, next: __, ...attributes } = next;
  return JSON.stringify(attributes);
}

/** Adds a field, perhaps one that is still being changed. */
export async function insertFieldRow(tx: Tx, entity: Entity, field: Field): Promise<void> {
  await insertFields(tx, entity.schema, entity.id, [field]);
  if (field.next !== undefined) await updateFieldRow(tx, entity.schema, field);
}

export async function deleteFieldRow(tx: Tx, entity: Entity, fieldId: string): Promise<void> {
  await tx.rows(sql`delete from ${identifier(entity.schema, 'field_definitions')} where id = ${fieldId}::uuid`);
}

/** Raises the entity's version, and sets what is given. */
export async function bumpVersion(
  tx: Tx,
  entity: Entity,
  { nextSlot, retiredSlots }: { nextSlot?: number; retiredSlots?: readonly string[] },
): Promise<void> {
  const parts: Sql[] = [sql`version = version + 1`, sql`updated_at = now()`];
  if (nextSlot !== undefined) parts.push(sql`next_slot = ${nextSlot}::int`);
  if (retiredSlots !== undefined) parts.push(sql`retired_slots = ${JSON.stringify(retiredSlots)}::text::jsonb`);
  await tx.rows(sql`
    update ${identifier(entity.schema, 'entity_definitions')}
    set ${join(parts, ', ')}
    where id = ${entity.id}::uuid`);
}
