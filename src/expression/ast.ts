// The expression language's tree, what a caller supplies to read one, and its limits. Every name in
// a tree is resolved already (a field is its slot, a relation its target table), so a tree can be
// joined to another, stored as a cache key, run as SQL or evaluated without looking anything up.
// What an expression mentions is asked here too: keys are field keys, each once, in order of mention.
// `x = null` is the test "null"; `in` with no values is the test that never holds.
// Contract: decisions#expressions.

import { compile, type Sql } from '../runtime/sql.ts';

/** The longest expression, in characters (Unicode code points). */
export const EXPRESSION_MAX_CHARACTERS = 2_000;
/** The most comparisons in one expression. */
export const EXPRESSION_MAX_TERMS = 50;
/** The most parentheses and negations around one comparison. */
export const EXPRESSION_MAX_LEVELS = 10;

export type FieldType =
  | 'text'
  | 'email'
  | 'url'
  | 'uuid'
  | 'integer'
  | 'number'
  | 'decimal'
  | 'boolean'
  | 'date'
  | 'datetime'
  | 'select'
  | 'multiselect'
  | 'json'
  | 'relation'
  | 'relations';

/** A field as the catalogue knows it; `slot` is its key in a row's `data`, null for a system field. */
export interface FieldRef {
  key: string;
  type: FieldType;
  slot: string | null;
  options?: readonly string[];
}

/** A relation's target: its table, its fields, and the row filter that the caller is under there. */
export interface Related {
  table: Sql;
  names: Names;
  rows: Expression | null;
}

/** Who reads the expression, what they may name in it, and when. */
export interface Names {
  /** Undefined for a field that does not exist and for one that is hidden: the answer is the same. */
  field(key: string): FieldRef | undefined;
  /** The target of a `relation` field, undefined when the caller may not read it. */
  related(key: string): Related | undefined;
  user: { id: string | null; email: string | null; role: string | null; kind: string };
  now: Date;
  /** Rules only: `$old.field` and `$changed.field` may stand on the left. */
  allowOld?: boolean;
}

/** A record as it is stored: `data` by slot; times are ISO 8601 UTC with milliseconds. */
export interface StoredRow {
  id: string;
  entityId: string;
  createdAt: string;
  updatedAt: string;
  createdBy: string | null;
  updatedBy: string | null;
  data: Record<string, unknown>;
}

/** The fields that every record has, whatever its entity. */
export const SYSTEM_FIELDS: Readonly<Record<Exclude<keyof StoredRow, 'data'>, FieldRef>> = {
  id: { key: 'id', type: 'uuid', slot: null },
  entityId: { key: 'entityId', type: 'uuid', slot: null },
  createdAt: { key: 'createdAt', type: 'datetime', slot: null },
  updatedAt: { key: 'updatedAt', type: 'datetime', slot: null },
  createdBy: { key: 'createdBy', type: 'text', slot: null },
  updatedBy: { key: 'updatedBy', type: 'text', slot: null },
};

export type Operator =
  | '='
  | '!='
  | '<'
  | '>'
  | '<='
  | '>='
  | 'contains'
  | 'startsWith'
  | 'endsWith'
  | 'in'
  | 'null'
  | 'not null';

/** A value in the form its field stores: numbers for `integer` and `number`, else text or a boolean. */
export type Value = string | number | boolean;

/** What is compared: a field of the row, of the row before the change, or of the row a relation names. */
export interface Subject {
  field: FieldRef;
  /** `changed` asks whether the field changes; its value is a boolean. */
  state: 'now' | 'old' | 'changed';
  through: { field: FieldRef; related: Related } | null;
}

export interface Comparison {
  kind: 'test';
  subject: Subject;
  operator: Operator;
  /** One value; none for the null tests; any number for `in`. */
  values: readonly Value[];
}

export type Expression =
  | Comparison
  | { kind: 'and' | 'or'; parts: readonly Expression[] }
  | { kind: 'not'; part: Expression };

/** All of the expressions at once; null (no condition) when there is none. */
export function and(...expressions: readonly (Expression | null)[]): Expression | null {
  const parts = expressions.filter((expression) => expression !== null);
  return parts.length > 1 ? { kind: 'and', parts } : (parts[0] ?? null);
}

/** The keys of the entity's own fields that the expression reads, a followed relation's included. */
export function fieldKeys(expression: Expression): string[] {
  const keys = tests(expression).map(({ subject }) => (subject.through ?? subject).field.key);
  return [...new Set(keys)];
}

/** The keys of the relation fields that it follows: the rows `evaluate` will ask for. */
export function relationKeys(expression: Expression): string[] {
  const keys = tests(expression).flatMap(({ subject }) => subject.through?.field.key ?? []);
  return [...new Set(keys)];
}

/** A text that two expressions share only if they are the same condition on the same fields with the same values. */
export function canonicalKey(expression: Expression): string {
  return JSON.stringify(shape(expression));
}

function tests(expression: Expression): Comparison[] {
  switch (expression.kind) {
    case 'test':
      return [expression];
    case 'not':
      return tests(expression.part);
    default:
      return expression.parts.flatMap(tests);
  }
}

function shape(expression: Expression): unknown {
  switch (expression.kind) {
    case 'test':
      return [subjectShape(expression.subject), expression.operator, ...expression.values];
    case 'not':
      return ['not', shape(expression.part)];
    default:
      return [expression.kind, ...expression.parts.map(shape)];
  }
}

function subjectShape({ field, state, through }: Subject): unknown[] {
  const own = [state, field.key, field.type, field.slot];
  if (!through) return own;
  const { text, parameters } = compile(through.related.table);
  const rows = through.related.rows && shape(through.related.rows);
  return [...own, through.field.key, through.field.slot, text, parameters, rows];
}
