// The database indexes of an entity's records: of one field (unique, by value, by member of a list), of several fields as the
// definition declares, and by time where ids are not in that order. They use the same SQL expressions as conditions, so that
// Postgres matches them. Fields whose values have no order have no such index, and missing values come last.
// Contract: decisions#field-changes, decisions#indexes.
import { type FieldRef, SYSTEM_FIELDS } from '../expression/ast.ts';
import { columnOf } from '../expression/to-sql.ts';
import { isOrdered } from '../expression/value-types.ts';
import { LIMITS } from '../limits.ts';
import { EMPTY, identifier, join, literal, raw, type Sql, sql } from '../runtime/sql.ts';
import type { DeclaredIndex, Entity, Field, IndexedSystemKey } from './field.ts';
import { specOf } from './field-types.ts';

type IndexKind = 'unique' | 'value' | 'members';

/** A field in the order of an index. */
export interface OrderedField {
  ref: FieldRef;
  isDescending: boolean;
}

/** An index that the definition of an entity requires. */
export interface RecordIndex {
  name: string;
  /** Its columns, or the method and its columns. */
  on: Sql;
  /** The field of a unique index; null for other indexes. */
  unique: Field | null;
}

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

/** The indexes of a field. */
export function fieldIndexes(entity: Pick<Entity, 'tableName'>, field: Field): RecordIndex[] {
  return indexKinds(field).map((kind) => {
    const column = columnOf(field.ref, identifier(entity.tableName));
    const on =
      kind === 'members'
        ? sql`using gin ((data -> ${literal(field.slot)}))`
        : kind === 'unique'
          ? sql`((${column}))`
          : sql`((${column}), id)`;
    return { name: indexName(entity, field, kind), on, unique: kind === 'unique' ? field : null };
  });
}

/** The index by time, for an entity whose ids are not in the order of `createdAt`. */
export function timeIndex({ tableName }: Pick<Entity, 'tableName'>): RecordIndex {
  return { name: `${tableName}_time`, on: sql`(created_at, id)`, unique: null };
}

/** All indexes that the entity's definition requires, except the ones that every entity has. */
export function requiredIndexes(entity: IndexedEntity): RecordIndex[] {
  return [
    ...entity.fields.flatMap((field) => fieldIndexes(entity, field)),
    ...declaredIndexes(entity),
    ...(entity.isInIdOrder ? [] : [timeIndex(entity)]),
  ];
}
export type IndexedEntity = Pick<Entity, 'tableName' | 'fields' | 'indexes' | 'isInIdOrder'>;

/** How many they are. */
export function indexCount({ fields, indexes, isInIdOrder }: Omit<IndexedEntity, 'tableName'>): number {
  return fieldIndexCount(fields) + indexes.length + (isInIdOrder ? 0 : 1);
}

export function fieldIndexCount(fields: readonly Field[]): number {
  return fields.reduce((count, field) => count + indexKinds(field).length, 0);
}

/** A pattern of all their names, including those that an interrupted build leaves behind. */
export const INDEX_NAMES = '_(f[0-9]+_(unique|value|members)|time|x(f[0-9]+d?|[cu][ab]d?)+)(_cc(new|old)[0-9]*)?$';

/** The statement that builds an index; `concurrently` for a table that is being written to. */
export function createIndex({ table }: Pick<Entity, 'table'>, index: RecordIndex, concurrently = false): Sql {
  const { name, on, unique } = index;
  const kind = raw(`${unique === null ? '' : 'unique '}index${concurrently ? ' concurrently' : ''}`);
  return sql`create ${kind} ${identifier(name)} on ${table} ${on}`;
}

/** The indexes that the definition declares. Two with the same fields in the same directions are one. */
export function declaredIndexes(entity: IndexedEntity): RecordIndex[] {
  const byName = entity.indexes.map((index): [string, RecordIndex] => {
    const order = orderOf(entity, index);
    const name = declaredName(entity, index);
    const columns = order.map(({ ref, isDescending }) => {
      const column = columnOf(ref, ref.slot === null ? undefined : identifier(entity.tableName));
      return sql`(${column})${isDescending ? sql` desc nulls last` : EMPTY}`;
    });
    const ties = order.at(-1)?.isDescending === true ? sql`id desc` : sql`id`;
    return [name, { name, on: sql`(${join([...columns, ties], ', ')})`, unique: null }];
  });
  return [...new Map(byName).values()];
}

/** The name of a declared index, which its fields and their directions decide. */
export function declaredName(entity: Pick<Entity, 'tableName' | 'fields'>, index: DeclaredIndex): string {
  return `${entity.tableName}_x${orderOf(entity, index).map(codeOf).join('')}`;
}

const CODES: Readonly<Record<IndexedSystemKey, string>> = {
  createdAt: 'ca',
  updatedAt: 'ua',
  createdBy: 'cb',
  updatedBy: 'ub',
};

/** The code of a column in the index's name; three codes fit into a name beside the partition's name. */
function codeOf({ ref: { key, slot }, isDescending }: OrderedField): string {
  return `${slot ?? CODES[key as IndexedSystemKey]}${isDescending ? 'd' : ''}`;
}

/** The fields of a declared index. */
export function orderOf(entity: Pick<Entity, 'fields'>, { columns }: DeclaredIndex): OrderedField[] {
  return columns.flatMap(({ field, isDescending }) => {
    const ref = isSystemKey(field) ? SYSTEM_FIELDS[field] : entity.fields.find(({ id }) => id === field)?.ref;
    return ref === undefined || !isOrdered(ref.value) ? [] : [{ ref, isDescending }];
  });
}

/** The declared indexes that are possible. An index is not when one of its fields has been dropped or has lost its order. */
export function possibleIndexes(fields: readonly Field[], declared: readonly DeclaredIndex[]): DeclaredIndex[] {
  return declared.filter((index) => orderOf({ fields }, index).length === index.columns.length);
}

export function isSystemKey(key: string): key is IndexedSystemKey {
  return Object.hasOwn(CODES, key);
}

export const INDEXED_SYSTEM_KEYS = Object.keys(CODES) as readonly IndexedSystemKey[];

/**
 * How many characters of a field's text fit into every index that contains it; null without an index, or for values that are
 * never long.
 */
export function indexedTextMax({ fields, indexes }: Pick<Entity, 'fields' | 'indexes'>, field: Field): number | null {
  if (!specOf(field).isFreeText) return null;
  const own = field.unique || field.indexed ? [1] : [];
  const shared = indexes
    .filter(({ columns }) => columns.some((column) => column.field === field.id))
    .map((index) => orderOf({ fields }, index).filter(({ ref }) => LONG_TYPES.has(ref.type)).length);
  const texts = Math.max(0, ...own, ...shared);
  return texts === 0 ? null : Math.floor(LIMITS.indexedTextMax / texts);
}

/** Types whose values may be long. */
const LONG_TYPES: ReadonlySet<string> = new Set(['text', 'email', 'url', 'select', 'decimal']);
