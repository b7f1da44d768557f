// Evaluates an expression on one row in memory, for events, streams and rules, with the same result as
// the SQL of to-sql.ts. Two-valued: a comparison with a missing value is false, `!=` is true, and NOT is
// plain negation. Failures: a plain Error when the context lacks what the expression needs, because false
// would grant access under NOT. Contract: decisions#expressions.

import type { Comparison, Expression, FieldRef, StoredRow } from './ast.ts';
import { OPERATORS } from './operators.ts';

export interface EvaluationContext {
  /** The row that a relation field refers to, if it exists and the caller may read it. */
  related?(key: string): StoredRow | undefined;
  /** The row before the change; null or undefined when there was none. */
  old?: StoredRow | null;
  /** Whether the change modifies a field. */
  changed?(key: string): boolean;
}

export function evaluate(expression: Expression, row: StoredRow, context: EvaluationContext = {}): boolean {
  switch (expression.kind) {
    case 'and':
      return expression.parts.every((part) => evaluate(part, row, context));
    case 'or':
      return expression.parts.some((part) => evaluate(part, row, context));
    case 'not':
      return !evaluate(expression.part, row, context);
    case 'comparison':
      return evaluateComparison(expression, row, context);
  }
}

function evaluateComparison(comparison: Comparison, row: StoredRow, context: EvaluationContext): boolean {
  const { field, state, through } = comparison.subject;
  if (state === 'changed') return matches(comparison, required(context.changed, '$changed')(field.key));
  if (through === null) return matches(comparison, storedValue(field, state === 'old' ? context.old : row));
  if (storedValue(through.field, row) === null) return matches(comparison, null);
  const target = required(context.related, 'related rows')(through.field.key);
  return target !== undefined && matches(comparison, storedValue(field, target));
}

function matches({ subject, operator, values }: Comparison, stored: unknown): boolean {
  const { matchesNull, matches } = OPERATORS[operator];
  return stored === null ? matchesNull : matches(subject.field.value, stored, values);
}

function storedValue(field: FieldRef, row: StoredRow | null | undefined): unknown {
  if (!row) return null;
  return (field.slot === null ? row[field.key as keyof StoredRow] : row.data[field.slot]) ?? null;
}

function required<T>(given: T | undefined, what: string): T {
  if (given === undefined) throw new Error(`an expression needs ${what}, which the caller did not provide`);
  return given;
}
