// The database indexes of a field: unique, by value, by member. They use the same SQL expressions as
// conditions do, so that Postgres matches them.
// Contract: decisions#field-changes.
import { columnOf } from '../expression/to-sql.ts';
import { identifier, literal, raw, type Sql, sql } from '../runtime/sql.ts';
import type { Entity, Field } from './field.ts';
import { specOf } from './field-types.ts';

export type IndexKind = 'unique' | 'value' | 'members';

/** At most 63 bytes: the partition's name, the slot, the kind. */
export function indexName(entity: Pick<Entity, 'tableName'>, field: Pick<Field, 'slot'>, kind: IndexKind): string {
  return `${entity.tableName}_${field.slot}_${kind}`;
}

/** The indexes that a field's definition requires. */
export function indexKinds(field: Pick<Field, 'type' | 'unique' | 'indexed'>): IndexKind[] {
  const { index, isAlwaysIndexed } = specOf(field);
  const own = index !== null && (field.indexed || isAlwaysIndexed) ? [index] : [];
  return field.unique ? ['unique', ...own] : own;
}

/** The statement that builds the index; `concurrently` for a table that is being written to. */
export function createIndex(entity: Entity, field: Field, kind: IndexKind, concurrently = false): Sql {
  const name = identifier(indexName(entity, field, kind));
  const how = raw(`${kind === 'unique' ? 'unique ' : ''}index${concurrently ? ' concurrently' : ''}`);
  if (kind === 'members') {
    return sql`create ${how} ${name} on ${entity.table} using gin ((data -> ${literal(field.slot)}))`;
  }
  const column = columnOf(field.ref, identifier(entity.tableName));
  const columns = kind === 'unique' ? sql`(${column})` : sql`(${column}), id`;
  return sql`create ${how} ${name} on ${entity.table} (${columns})`;
}
