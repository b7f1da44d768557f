// Writes rows of field_definitions and the entity's version, in a transaction that holds the definition
// lock. Writes made under an older version fail and are repeated under the new definition.
// Contract: decisions#fields, decisions#field-changes.
import { identifier, join, type Sql, sql, type Tx } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import type { Entity, Field } from './field.ts';

/** Inserts field definitions. */
export async function insertFields(tx: Tx, schema: string, entityId: string, fields: readonly Field[]): Promise<void> {
  const rows = fields.map(
    (field): Sql => sql`(${field.id}::uuid, ${entityId}::uuid, ${field.key}, ${field.slot}, ${field.type},
      ${field.label}, ${field.description}, ${field.required}::boolean, ${field.unique}::boolean,
      ${field.indexed}::boolean, ${field.default === undefined ? null : JSON.stringify(field.default)}::text::jsonb,
      ${JSON.stringify(rulesOf(field))}::text::jsonb, ${field.targetId}::uuid, ${field.onDelete}, ${field.position}::int)`,
  );
  await tx.rows(sql`
    insert into ${identifier(schema, 'field_definitions')} (id, entity_id, key, slot, type, label, description,
      is_required, is_unique, is_indexed, default_value, rules, target_id, on_delete, position)
    values ${join(rows, ', ')}`);
}

/** The attributes that constrain a field's values, as stored. */
function rulesOf({ min, max, minLength, maxLength, pattern, options }: Field): JsonObject {
  return { min, max, minLength, maxLength, pattern, options };
}

/** Updates every attribute of a field, and its next definition. */
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

export async function deleteFieldRow(tx: Tx, entity: Entity, fieldId: string): Promise<void> {
  await tx.rows(sql`delete from ${identifier(entity.schema, 'field_definitions')} where id = ${fieldId}::uuid`);
}

/** Raises the entity's version, and sets the slots given. */
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
