// Examples of requests and responses about an entity's records, built from example values of its fields
// (entities/example-values.ts). There is no example when a required field has no example value.
// Contract: decisions#api-document.
import { exampleValue, storedExample, type TargetIds } from '../entities/example-values.ts';
import type { Field } from '../entities/field.ts';
import { isRequired } from './entity-schemas.ts';
import type { VisibleEntity } from './visible-entities.ts';

type Values = Record<string, unknown>;

/** The values of a new record; null when a required field has no example. */
export async function exampleToCreate(
  { fields }: VisibleEntity,
  targets: TargetIds,
  use: string,
  { isComplete }: { isComplete: boolean },
): Promise<Values | null> {
  const values: Values = {};
  for (const field of fields) {
    const isNeeded = isRequired(field);
    // A second request with the same value would be a conflict.
    if (!isNeeded && (!isComplete || field.unique || field.targetId !== null || isKeyword(field))) continue;
    const value = await exampleValue(field, targets, use);
    if (value !== undefined) values[field.key] = value;
    else if (isNeeded) return null;
  }
  return values;
}

/** The change of one field; empty when no field has an example. */
export async function exampleToUpdate({ fields }: VisibleEntity, targets: TargetIds): Promise<Values> {
  for (const field of fields) {
    if (field.unique || field.targetId !== null) continue;
    const value = await exampleValue(field, targets, 'update');
    if (value !== undefined) return { [field.key]: value };
  }
  return {};
}

/** The record that creating the values returns, with a value of the right type in every field; null without one. */
export async function exampleOfRecord(
  { fields }: VisibleEntity,
  targets: TargetIds,
  values: Values | null,
): Promise<Values | null> {
  if (values === null || fields.some(isKeyword)) return null;
  const own: Values = {};
  for (const field of fields) {
    own[field.key] = values[field.key] ?? (await storedExample(field, targets));
    if (own[field.key] === null && field.required) return null;
  }
  return own;
}

/** Whether the key is a keyword of JSON Schema: tools would read an example with such a member as a schema. */
function isKeyword({ key }: Field): boolean {
  return ['default', 'example', 'examples', 'schema'].includes(key);
}
