// How an upsert finds its records: by the values of a unique field, or by id. Equal values become the same text, however they
// are written.
// Failures: 400 for a field that is not unique; a hidden field is unknown.
// Contract: decisions#upsert.
import type { AccessScope } from '../../entities/access-scope.ts';
import type { Field } from '../../entities/field.ts';
import { specOf } from '../../entities/field-types.ts';
import { unwrap } from '../../entities/values.ts';
import { invalidField } from '../../errors.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { raw, type Sql, sql } from '../../runtime/sql.ts';
import { withoutFinalZeros } from '../../runtime/text.ts';
import type { RecordRow } from '../row.ts';
import type { BatchItem } from './items.ts';

const R = sql`r`;

export interface Key {
  name: string;
  /** The item's value; undefined when it has none, or one of the wrong type. */
  ofItem(item: BatchItem): string | undefined;
  ofRow(row: RecordRow): string;
  /** The condition that the record `r` has one of the values. */
  isAmong(values: readonly string[]): Sql;
}

/** The unique field by which records are found. 400 under `path` if the field is not unique. */
export function requireUniqueField(
  { entity, isVisible }: Pick<AccessScope, 'entity' | 'isVisible'>,
  by: string,
  path: string,
): Field {
  const name = by.slice(0, 200);
  const field = entity.byKey.get(by);
  if (field === undefined || !isVisible(field)) throw invalidField(path, `unknown field "${name}"`);
  if (!field.unique) throw invalidField(path, `"${name}" is not a unique field`);
  return field;
}

export function keyOfField(scope: AccessScope, field: Field): Key {
  return {
    name: field.key,
    ofItem: ({ body }) => uniqueText(field, unwrap(scope, body)[field.key]),
    ofRow: ({ data }) => textOf(field, data[field.slot]),
    isAmong: (values) => hasOneOf(field, values),
  };
}

export const BY_ID: Key = {
  name: 'id',
  ofItem: ({ id }) => id,
  ofRow: ({ id }) => id,
  isAmong: (ids) => sql`r.id = any(${[...ids]}::uuid[])`,
};

/**
 * The stored form of an input value, as a text that is the same for equal values. Undefined for no value, or one of the wrong
 * type.
 */
export function uniqueText(field: Field, input: unknown): string | undefined {
  if (input === undefined || input === null) return undefined;
  // The pattern is checked together with the record's other values.
  const { pattern: _, ...unlimited } = field;
  const parsed = specOf(field).parse(input, unlimited);
  return 'value' in parsed ? textOf(field, parsed.value) : undefined;
}

/** The text of a stored value. */
export function textOf({ type }: Field, stored: unknown): string {
  const text = String(stored);
  if (type !== 'decimal' || !text.includes('.')) return text;
  const digits = withoutFinalZeros(text);
  return digits.endsWith('.') ? digits.slice(0, -1) : digits;
}

/** The condition that `r` has one of the values; an index on the field serves it. */
export function hasOneOf({ ref }: Field, values: readonly string[]): Sql {
  return sql`${columnOf(ref, R)} = any(${[...values]}::text[]::${raw(ref.value.sqlType)}[])`;
}
