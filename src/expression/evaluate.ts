// An expression's answer for one row in memory: events, streams and rules. It agrees with the SQL of
// to-sql.ts on every row, which test/agreement.test.ts holds it to. Two-valued: a comparison with a
// null does not hold, `!=` does, and NOT is plain negation.
// Failures: a plain Error when the caller left out what the expression needs (a silent false would be
// a leak under NOT). Contract: decisions#expressions.

import type { Comparison, Expression, FieldRef, StoredRow, Subject, Value } from './ast.ts';
import { foldCase } from './case-folding.ts';
import { compareDecimal, compareText } from './compare.ts';

/** What an expression may look at besides the row. */
export interface EvaluationContext {
  /** The row that a relation field names, if it exists and the caller may read it. */
  related?(key: string): StoredRow | undefined;
  /** The row before the change; null or undefined when there was none. */
  old?: StoredRow | null;
  /** Whether the change touches a field. */
  changed?(key: string): boolean;
}

/** Whether the row meets the expression. */
export function evaluate(expression: Expression, row: StoredRow, surroundings: EvaluationContext = {}): boolean {
  switch (expression.kind) {
    case 'and':
      return expression.parts.every((part) => evaluate(part, row, surroundings));
    case 'or':
      return expression.parts.some((part) => evaluate(part, row, surroundings));
    case 'not':
      return !evaluate(expression.part, row, surroundings);
    case 'test':
      return meets(expression, row, surroundings);
  }
}

function meets(test: Comparison, row: StoredRow, surroundings: EvaluationContext): boolean {
  const { field, state, through } = test.subject;
  if (through) return meetsThrough(test, through.field, row, surroundings);
  if (state === 'changed') return holds(test, needed(surroundings.changed, '$changed')(field.key));
  return holds(test, storedValue(field, state === 'old' ? surroundings.old : row));
}

function meetsThrough(test: Comparison, relation: FieldRef, row: StoredRow, surroundings: EvaluationContext): boolean {
  if (storedValue(relation, row) === null) return holds(test, null);
  const target = needed(surroundings.related, 'related rows')(relation.key);
  return target !== undefined && holds(test, storedValue(test.subject.field, target));
}

function storedValue(field: FieldRef, row: StoredRow | null | undefined): unknown {
  if (!row) return null;
  return (field.slot === null ? row[field.key as keyof StoredRow] : row.data[field.slot]) ?? null;
}

function holds({ subject, operator, values }: Comparison, stored: unknown): boolean {
  if (operator === 'null') return stored === null;
  if (stored === null) return operator === '!=';
  const [value = ''] = values;
  switch (operator) {
    case 'not null':
      return true;
    case 'in':
      return values.some((candidate) => compare(subject, stored, candidate) === 0);
    case 'contains':
      return contains(stored, String(value));
    case 'startsWith':
      return String(stored).startsWith(String(value));
    case 'endsWith':
      return String(stored).endsWith(String(value));
    default:
      return COMPARISONS[operator](compare(subject, stored, value));
  }
}

const COMPARISONS = {
  '=': (order: number) => order === 0,
  '!=': (order: number) => order !== 0,
  '<': (order: number) => order < 0,
  '>': (order: number) => order > 0,
  '<=': (order: number) => order <= 0,
  '>=': (order: number) => order >= 0,
};

function compare({ field }: Subject, stored: unknown, value: Value): number {
  switch (field.type) {
    case 'integer':
    case 'number':
    case 'boolean':
      return Number(stored) - Number(value);
    case 'decimal':
      return compareDecimal(String(stored), String(value));
    default:
      return compareText(String(stored), String(value));
  }
}

function contains(stored: unknown, value: string): boolean {
  return Array.isArray(stored) ? stored.includes(value) : foldCase(String(stored)).includes(foldCase(value));
}

function needed<T>(given: T | undefined, what: string): T {
  if (given === undefined) throw new Error(`an expression needs ${what}, which its caller did not provide`);
  return given;
}
