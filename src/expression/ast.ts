// The syntax tree of the expression language, the names that a parser resolves, and the limits. Every name in a
// tree is resolved (a field to its slot, a relation to its target table), so a tree can be combined with others,
// used as a cache key, compiled to SQL or evaluated without a lookup. `x = null` becomes the operator `null`;
// `in` without values never matches.
// Contract: decisions#expressions.

import { compile, type Sql } from '../runtime/sql.ts';
import { type Operator, TEXT, TIMESTAMP_COLUMN, UUID_COLUMN, type Value, type ValueType } from './value-types.ts';

/** The longest expression, in Unicode code points. */
export const EXPRESSION_MAX_CHARACTERS = 2_000;
/** Comparisons in one expression. */
export const EXPRESSION_MAX_TERMS = 50;
/**
 * Comparisons in all conditions of one request, including the row filters of the targets that its relations lead to. There is
 * room for the conditions of a view, a row filter and the caller's own filters.
 */
export const CONDITION_MAX_COMPARISONS = 1_200;
/** Parentheses and negations around one comparison. */
export const EXPRESSION_MAX_LEVELS = 10;

/** A field of an entity. `slot` is its key in a row's `data`, null for a system field. */
export interface FieldRef {
  key: string;
  /** The field type's name, for error messages and keys. */
  type: string;
  value: ValueType;
  slot: string | null;
}

/** A relation's target: its table, its fields, and the row filter that applies to the caller there. */
export interface Related {
  table: Sql;
  names: Names;
  rowFilter: Expression | null;
}

/** The names that a caller may use in an expression, and the values of its variables. */
export interface Names {
  /** Undefined for an unknown field and for a hidden one: both fail alike. */
  field(key: string): FieldRef | undefined;
  /** The target of a `relation` field; undefined when the caller may not read it. */
  related(key: string): Related | undefined;
  user: { id: string | null; email: string | null; role: string | null; kind: string | null };
  now: Date;
  /** Rules only: `$old.field` and `$changed.field` are allowed on the left. */
  allowOld?: boolean;
  /** For editors, which only check variables: the value that stands for a variable in the tree. */
  keepVariable?(variable: string): Value;
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

export type SystemKey = Exclude<keyof StoredRow, 'data'>;

/** The fields of every record. */
export const SYSTEM_FIELDS = {
  id: { key: 'id', type: 'uuid', value: UUID_COLUMN, slot: null },
  entityId: { key: 'entityId', type: 'uuid', value: UUID_COLUMN, slot: null },
  createdAt: { key: 'createdAt', type: 'datetime', value: TIMESTAMP_COLUMN, slot: null },
  updatedAt: { key: 'updatedAt', type: 'datetime', value: TIMESTAMP_COLUMN, slot: null },
  createdBy: { key: 'createdBy', type: 'text', value: TEXT, slot: null },
  updatedBy: { key: 'updatedBy', type: 'text', value: TEXT, slot: null },
} as const satisfies Readonly<Record<SystemKey, FieldRef>>;

/** The additional fields of deleted records, in lists of them. */
export const DELETION_FIELDS = {
  deletedAt: { key: 'deletedAt', type: 'datetime', value: TIMESTAMP_COLUMN, slot: null },
  deletedBy: { key: 'deletedBy', type: 'text', value: TEXT, slot: null },
} as const satisfies Readonly<Record<string, FieldRef>>;
export type DeletionKey = keyof typeof DELETION_FIELDS;

/** The left side: a field of the row, of the row before the change, or of a related row. */
export interface Subject {
  field: FieldRef;
  /** `changed` asks whether the field changes; its value is a boolean. */
  state: 'now' | 'old' | 'changed';
  through: { field: FieldRef; related: Related } | null;
}

export interface Comparison {
  kind: 'comparison';
  subject: Subject;
  operator: Operator;
  /** One value; none for the null operators; any number for `in`. */
  values: readonly Value[];
}

export type Expression =
  | Comparison
  | { kind: 'and' | 'or'; parts: readonly Expression[] }
  | { kind: 'not'; part: Expression };

/** The conjunction of all conditions; null (no condition) when there is none. */
export function and(...expressions: readonly (Expression | null)[]): Expression | null {
  const parts = expressions.filter((expression) => expression !== null);
  return parts.length > 1 ? { kind: 'and', parts } : (parts[0] ?? null);
}

/** Equal for two expressions only if they are the same condition on the same fields and values. */
export function canonicalKey(expression: Expression): string {
  return JSON.stringify(canonical(expression));
}

/** The distinct keys of the relations that the expression follows; `evaluate` needs their rows. */
export function relationKeys(expression: Expression): string[] {
  const keys = comparisons(expression).flatMap(({ subject }) => subject.through?.field.key ?? []);
  return [...new Set(keys)];
}

/** The comparisons of the expression, in their order. */
export function comparisons(expression: Expression): Comparison[] {
  switch (expression.kind) {
    case 'comparison':
      return [expression];
    case 'not':
      return comparisons(expression.part);
    default:
      return expression.parts.flatMap(comparisons);
  }
}

/** The comparisons of an expression, including the row filters of the targets that its relations lead to. */
export interface ExpressionSize {
  comparisons: number;
  /** The comparisons that follow a relation. */
  relations: number;
}

export function sizeOf(expression: Expression): ExpressionSize {
  const size = { comparisons: 0, relations: 0 };
  addSize(expression, size);
  return size;
}

function addSize(expression: Expression, size: ExpressionSize): void {
  for (const { subject } of comparisons(expression)) {
    size.comparisons++;
    if (subject.through === null) continue;
    size.relations++;
    if (subject.through.related.rowFilter !== null) addSize(subject.through.related.rowFilter, size);
  }
}

function canonical(expression: Expression): unknown {
  switch (expression.kind) {
    case 'comparison':
      return [canonicalSubject(expression.subject), expression.operator, ...expression.values];
    case 'not':
      return ['not', canonical(expression.part)];
    default:
      return [expression.kind, ...expression.parts.map(canonical)];
  }
}

function canonicalSubject({ field, state, through }: Subject): unknown[] {
  const own = [state, field.key, field.type, field.slot];
  if (!through) return own;
  const { text, parameters } = compile(through.related.table);
  const rows = through.related.rowFilter && canonical(through.related.rowFilter);
  return [...own, through.field.key, through.field.slot, text, parameters, rows];
}
