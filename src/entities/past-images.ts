// Conditions on a record as it was at a past time. What a field held before its type changed is not known any more: a condition that
// names it can neither be met nor not be met then, and taking the value for none would show what the condition hides.
// Contract: history#who-sees-what, feed#what-a-follower-sees.
import { comparisons, type Expression } from '../expression/ast.ts';

import type { Entity, Field } from './field.ts';
import type { SlotValues } from './values.ts';

type RetypedField = Field & { slotAt: string };

const retyped = new WeakMap<Expression, readonly RetypedField[]>();

/** The fields of the record itself that the condition names and whose type has changed. */
export function retypedIn(entity: Entity, condition: Expression): readonly RetypedField[] {
  const known = retyped.get(condition);
  if (known !== undefined) return known;
  const slots = new Set(comparisons(condition).map(({ subject }) => (subject.through?.field ?? subject.field).slot));
  const found = entity.fields.filter(
    (field): field is RetypedField => field.isRetyped && field.slotAt !== null && slots.has(field.slot),
  );
  retyped.set(condition, found);
  return found;
}

/** Whether the image has all that the condition names; `at` is when it was made. ISO 8601. */
export function isKnownThen(entity: Entity, condition: Expression, data: SlotValues, at: string): boolean {
  return retypedIn(entity, condition).every(
    ({ slot, slotAt }) => data[slot] !== undefined || Date.parse(slotAt) <= Date.parse(at),
  );
}
