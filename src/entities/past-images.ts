// Conditions on a record as it was at a past time. Some values are no longer known then: the value of a field before its type
// changed, and the values of a related record that has been deleted since. A condition is met only if it is met whatever these
// values were: taking them for missing would show records that NOT, `!=` and `is null` hide. Here a condition is rewritten to
// say this, for both back ends.
// Contract: history#who-sees-what, feed#what-a-follower-sees.
import {
  and,
  type Comparison,
  comparisons,
  DELETION_FIELDS,
  type Expression,
  type FieldRef,
  type Subject,
  SYSTEM_FIELDS,
} from '../expression/ast.ts';
import type { Value } from '../expression/value-types.ts';
import type { Entity, Field } from './field.ts';

type RetypedField = Field & { slotAt: string };

/** The fields of the record itself that the condition names and whose type has changed. */
export function retypedIn(entity: Entity, condition: Expression): readonly RetypedField[] {
  const slots = new Set(comparisons(condition).map(({ subject }) => ownField(subject).slot));
  return entity.fields.filter(
    (field): field is RetypedField => field.isRetyped && field.slotAt !== null && slots.has(field.slot),
  );
}

/** A condition that an image from the time `at` (ISO 8601) meets only if it surely met the given condition. */
export function surelyAt(entity: Entity, condition: Expression, at: string): Expression {
  const { retyped, forSlots } = formsOf(entity, condition);
  const unknown = retyped.filter(({ slotAt }) => Date.parse(slotAt) > Date.parse(at)).map(({ slot }) => slot);
  const name = unknown.join();
  const form =
    forSlots.get(name) ??
    surely(condition, false, (field) => (unknown.includes(field.slot ?? '') ? hasValue(field) : null));
  forSlots.set(name, form);
  return form;
}

/** Like `surelyAt`, for the last images of deleted records. */
export function surelyWhenDeleted(entity: Entity, condition: Expression): Expression {
  const { retyped } = formsOf(entity, condition);
  return surely(condition, false, (field) => {
    const slotAt = retyped.find(({ slot }) => slot === field.slot)?.slotAt;
    if (slotAt === undefined) return null;
    const isLater = comparison(DELETION_FIELDS.deletedAt, '>=', [new Date(slotAt).toISOString()]);
    return { kind: 'or', parts: [hasValue(field), isLater] };
  });
}

interface Forms {
  retyped: readonly RetypedField[];
  /** The rewritten conditions, by the slots of the unknown fields. */
  forSlots: Map<string, Expression>;
}

const forms = new WeakMap<Expression, Forms>();

function formsOf(entity: Entity, condition: Expression): Forms {
  const known = forms.get(condition) ?? { retyped: retypedIn(entity, condition), forSlots: new Map() };
  forms.set(condition, known);
  return known;
}

/**
 * Rewrites a condition so that it is met only if it surely was. `isOwnKnown` is the condition that a field of the record itself
 * is known; null when it always is.
 */
function surely(
  expression: Expression,
  isNegated: boolean,
  isOwnKnown: (field: FieldRef) => Expression | null,
): Expression {
  if (expression.kind === 'not') return { kind: 'not', part: surely(expression.part, !isNegated, isOwnKnown) };
  if (expression.kind !== 'comparison') {
    return { ...expression, parts: expression.parts.map((part) => surely(part, isNegated, isOwnKnown)) };
  }
  const { subject } = expression;
  // A comparison without its target fails, which is the safe result except under NOT.
  const isKnown = and(isOwnKnown(ownField(subject)), isNegated ? isTargetThere(subject) : null);
  if (isKnown === null) return expression;
  const otherwise: Expression = isNegated ? { kind: 'not', part: isKnown } : isKnown;
  return { kind: isNegated ? 'or' : 'and', parts: [expression, otherwise] };
}

/**
 * The condition that the target of the relation exists, or that there is none; null for a comparison that follows no relation.
 */
function isTargetThere({ through }: Subject): Expression | null {
  if (through === null) return null;
  const found: Comparison = {
    ...comparison(SYSTEM_FIELDS.id, 'not null', []),
    subject: { field: SYSTEM_FIELDS.id, state: 'now', through },
  };
  return { kind: 'or', parts: [comparison(through.field, 'null', []), found] };
}

function hasValue(field: FieldRef): Comparison {
  return comparison(field, 'not null', []);
}

function comparison(field: FieldRef, operator: Comparison['operator'], values: readonly Value[]): Comparison {
  return { kind: 'comparison', subject: { field, state: 'now', through: null }, operator, values };
}

function ownField({ field, through }: Subject): FieldRef {
  return through?.field ?? field;
}
