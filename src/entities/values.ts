// Turns a request's field values into stored form, naming every problem at once: unknown fields,
// wrong types, missing required ones. A field that the caller cannot see is unknown to it.
// Contract: decisions#records.
import type { Problem } from '../errors.ts';
import type { JsonObject } from '../runtime/text.ts';
import { convertValue, readKept } from './conversion.ts';
import { type Entity, type Field, RESERVED_KEYS } from './field.ts';

/** Values by slot. `null` in a patch clears the field. */
export type SlotValues = Record<string, unknown>;

/** Which of the entity's fields the writer may see, and so set. */
export type FieldFilter = (field: Field) => boolean;

/** What is said of a field without a value that must have one; a rule may still give it one. */
export const IS_REQUIRED = 'is required';

/** The stored form of a new record: every field given, defaults for the rest. */
export function readNew(
  entity: Entity,
  input: JsonObject,
  sees: FieldFilter,
): { data: SlotValues; problems: Problem[] } {
  const { data, problems } = readPatch(entity, input, sees);
  for (const field of entity.fields) {
    if (data[field.slot] === null) delete data[field.slot];
    else if (data[field.slot] !== undefined || hasProblem(problems, field.key)) continue;
    else if (field.default !== undefined && !Object.hasOwn(input, field.key) && field.next?.isClosed !== true) {
      data[field.slot] = field.default;
    }
    if (isRequired(field) && data[field.slot] === undefined && !hasProblem(problems, field.key)) {
      problems.push({ path: field.key, message: IS_REQUIRED });
    }
  }
  return { data, problems };
}

/** The stored form of only the fields in the body; explicit nulls stay, to clear. */
export function readPatch(
  entity: Entity,
  input: JsonObject,
  sees: FieldFilter,
): { data: SlotValues; problems: Problem[] } {
  const data: SlotValues = {};
  const problems: Problem[] = [];
  for (const key of Object.keys(input)) {
    const field = entity.byKey.get(key);
    const problem =
      field === undefined || !sees(field) ? { message: unknownMessage(key) } : readInto(data, field, input[key]);
    if (problem !== undefined) problems.push({ path: key.slice(0, 200), message: problem.message });
  }
  return { data, problems };
}

function readInto(data: SlotValues, field: Field, input: unknown): { message: string } | undefined {
  if (input === null) {
    if (isRequired(field)) return { message: 'is required and cannot be cleared' };
    data[field.slot] = null;
    return undefined;
  }
  const reading = readKept(field, input);
  if ('problem' in reading) return { message: reading.problem };
  if (field.next !== undefined) {
    const next = convertValue(field, field.next, reading.value);
    if ('problem' in next) return { message: `${next.problem} (the field is being changed)` };
  }
  data[field.slot] = reading.value;
  return undefined;
}

function isRequired({ required, next }: Field): boolean {
  return required || next?.required === true;
}

/**
 * The values to store while fields are being moved to other slots: the converted ones go beside the
 * old. One that cannot be converted stays alone, and the change is refused when it is found.
 */
export function dualWrite(entity: Entity, data: SlotValues): SlotValues {
  let stored = data;
  for (const field of entity.fields) {
    const { next } = field;
    if (next === undefined || next.slot === field.slot) continue;
    const { [next.slot]: _, ...others } = stored;
    const value = data[field.slot];
    const reading = value === undefined ? undefined : convertValue(field, next, value);
    stored = reading !== undefined && 'value' in reading ? { ...others, [next.slot]: reading.value } : others;
  }
  return stored;
}

/** The stored values after a patch; an explicit null takes its value away. */
export function applyPatch(before: SlotValues, patch: SlotValues): SlotValues {
  const merged: SlotValues = { ...before, ...patch };
  for (const slot of Object.keys(patch)) if (patch[slot] === null) delete merged[slot];
  return merged;
}

function unknownMessage(key: string): string {
  return RESERVED_KEYS.has(key) && key !== 'name'
    ? 'is a system field and cannot be written'
    : 'is not a field of this entity';
}

function hasProblem(problems: readonly Problem[], key: string): boolean {
  return problems.some(({ path }) => path === key);
}

/**
 * The flat body of a record. A body whose only member is `data` with an object in it is unwrapped,
 * unless the entity has a field of that name.
 */
export function unwrap(entity: Entity, body: JsonObject): JsonObject {
  const keys = Object.keys(body);
  const inner = body.data;
  const isWrapped = keys.length === 1 && isObject(inner) && !entity.byKey.has('data');
  return isWrapped ? inner : body;
}

function isObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
