// Evaluates an expression on one row in memory, for events, streams and rules, with the same result as the SQL of to-sql.ts.
// Two-valued: a comparison with a missing value is false, `!=` is true, and NOT is plain negation. A comparison with a long
// value takes milliseconds, so the caller may evaluate in steps.
// Failures: a plain Error when the context lacks what the expression needs, because false would grant access under NOT.
// Contract: decisions#expressions, neighbours#fair-shares.

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

/** Whether the row matches. */
export function evaluate(expression: Expression, row: StoredRow, context: EvaluationContext = {}): boolean {
  const steps = evaluateInSteps(expression, row, context);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Like `evaluate`, one comparison per step. */
export function* evaluateInSteps(
  expression: Expression,
  row: StoredRow,
  context: EvaluationContext = {},
): Generator<void, boolean> {
  switch (expression.kind) {
    case 'and':
      for (const part of expression.parts) if (!(yield* evaluateInSteps(part, row, context))) return false;
      return true;
    case 'or':
      for (const part of expression.parts) if (yield* evaluateInSteps(part, row, context)) return true;
      return false;
    case 'not':
      return !(yield* evaluateInSteps(expression.part, row, context));
    case 'comparison': {
      const matches = evaluateComparison(expression, row, context);
      yield;
      return matches;
    }
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
