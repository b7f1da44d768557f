// Writes rows of field_definitions and the entity's version, in a transaction that holds the definition
// lock. Writes made under an older version fail and are repeated under the new definition.
// Contract: decisions#fields, decisions#field-changes.
import { identifier, join, type Sql, sql, type Tx } from '../runtime/sql.ts';
import type { Entity, Field } from './field.ts';

/** Inserts field definitions. */
export async function insertFields(tx: Tx, schema: string, entityId: string, fields: readonly Field[]): Promise<void> {
  const [first] = fields;
  if (first === undefined) return;
  const names = Object.keys(columnsOf(first)).map((name) => identifier(name));
  const rows = fields.map(
    (field) => sql`(${field.id}::uuid, ${entityId}::uuid, ${field.position}::int,
      ${join(Object.values(columnsOf(field)), ', ')})`,
  );
  await tx.rows(sql`
    insert into ${identifier(schema, 'field_definitions')} (id, entity_id, position, ${join(names, ', ')})
    values ${join(rows, ', ')}`);
}

/** Updates every attribute of a field, and its next definition. */
export async function updateFieldRow(tx: Tx, schema: string, field: Field): Promise<void> {
  const columns = Object.entries(columnsOf(field)).map(([name, value]) => sql`${identifier(name)} = ${value}`);
  await tx.rows(sql`
    update ${identifier(schema, 'field_definitions')}
    set ${join(columns, ', ')}
    where id = ${field.id}::uuid`);
}

function columnsOf(field: Field): Record<string, Sql> {
  const { min, max, minLength, maxLength, pattern, options } = field;
  return {
    key: sql`${field.key}`,
    slot: sql`${field.slot}`,
    type: sql`${field.type}`,
    label: sql`${field.label}`,
    description: sql`${field.description}`,
    is_required: sql`${field.required}::boolean`,
    is_unique: sql`${field.unique}::boolean`,
    is_indexed: sql`${field.indexed}::boolean`,
    default_value: json(field.default),
    rules: json({ min, max, minLength, maxLength, pattern, options }),
    target_id: sql`${field.targetId}::uuid`,
    on_delete: sql`${field.onDelete}`,
    next: json(field.next && { ...field.next, ref: undefined, next: undefined }),
  };
}

function json(value: unknown): Sql {
  return sql`${value === undefined ? null : JSON.stringify(value)}::text::jsonb`;
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
