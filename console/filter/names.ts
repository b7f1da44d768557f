// What a condition on an entity may name, for the service's own parser: fields with their value types, relations one
// step away, and variables, which stay as they were written.
import { type FieldRef, type Names, SYSTEM_FIELDS } from '../../src/expression/ast.ts';
import {
  BOOLEAN,
  DATE,
  DATE_TIME,
  DECIMAL,
  JSON_VALUE,
  NUMBER,
  TEXT,
  TEXT_LIST,
  UUID,
  UUID_LIST,
  type ValueType,
} from '../../src/expression/value-types.ts';
import { raw } from '../../src/runtime/sql.ts';
import type { Entity, FieldType } from '../api/answers.ts';

/** The value type of each field type; test/console-filter.test.ts compares it with the service's table. */
export const VALUE_TYPES: Readonly<Record<FieldType, ValueType>> = {
  text: TEXT,
  email: TEXT,
  url: TEXT,
  uuid: UUID,
  integer: NUMBER,
  number: NUMBER,
  decimal: DECIMAL,
  boolean: BOOLEAN,
  date: DATE,
  datetime: DATE_TIME,
  select: TEXT,
  multiselect: TEXT_LIST,
  json: JSON_VALUE,
  relation: UUID,
  relations: UUID_LIST,
};

/** Marks a variable among the values of a tree: no text that can be stored contains it. */
export const VARIABLE = '\0';

/** A stand-in for the caller: the parser checks the type of each variable, and keeps its name. */
const STAND_IN = { id: '00000000-0000-7000-8000-000000000000', email: 'me@example', role: 'role', kind: 'user' };

export function namesOf(entity: Entity, entities: readonly Entity[], allowOld = false): Names {
  return {
    field: (key) => fieldRef(entity, key),
    related: (key) => {
      const target = targetOf(entity, entities, key);
      return target && { table: raw(''), names: namesOf(target, entities), rowFilter: null };
    },
    user: STAND_IN,
    now: new Date(),
    allowOld,
    keepVariable: (variable) => VARIABLE + variable,
  };
}

/** The entity that a relation refers to, if it is known. */
export function targetOf(entity: Entity, entities: readonly Entity[], key: string): Entity | undefined {
  const field = entity.fields.find((one) => one.key === key && one.type === 'relation');
  return field && entities.find(({ name }) => name === field.entity);
}

function fieldRef(entity: Entity, key: string): FieldRef | undefined {
  if (Object.hasOwn(SYSTEM_FIELDS, key)) return SYSTEM_FIELDS[key as keyof typeof SYSTEM_FIELDS];
  const field = entity.fields.find((one) => one.key === key);
  return field && { key, type: field.type, value: VALUE_TYPES[field.type], slot: key };
}
