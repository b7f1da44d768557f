// The database indexes behind a field: unique, by value, by member. Their expressions are the very
// ones that conditions compile to, so that Postgres uses them.
// Contract: decisions#field-changes.
import { columnOf } from '../expression/to-sql.ts';
import { identifier, literal, raw, type Sql, sql } from '../runtime/sql.ts';
import type { Entity, Field } from './field.ts';

export type IndexKind = 'unique' | 'value' | 'members';

/** At most 63 bytes: the partition's name, the slot, the kind. */
export function indexName(entity: Pick<Entity, 'tableName'>, field: Pick<Field, 'slot'>, kind: IndexKind): string {
  return `${entity.tableName}_${field.slot}_${kind}`;
}

/** The indexes a field calls for. Relations always have one: deletions look for what points at them. */
export function indexKinds(field: Pick<Field, 'type' | 'unique' | 'indexed'>): IndexKind[] {
  const isSet = field.type === 'multiselect' || field.type === 'relations';
  const kinds: IndexKind[] = [];
  if (field.unique) kinds.push('unique');
  if (field.type === 'relations' || (isSet && field.indexed)) kinds.push('members');
  else if (field.type === 'relation' || field.indexed) kinds.push('value');
  return kinds;
}

/** The statement that makes the index; `concurrently` for a table that is being written to. */
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
