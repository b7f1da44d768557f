// Converts a request's field values to the stored form and reports all problems at once: unknown fields, wrong
// types, missing required values. A field hidden from the caller is unknown. During a transition
// values must fit both definitions and are written in both forms.
// Contract: decisions#records.
import type { Problem } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { isLongerThan, type JsonObject } from '../runtime/text.ts';
import { type Entity, type Field, RESERVED_KEYS } from './field.ts';
import type { Parsed } from './field-parsers.ts';
import { specOf } from './field-types.ts';
import { type PatternValue, withMatches } from './patterns.ts';

/** Values by slot. `null` in a patch clears the field. */
export type SlotValues = Record<string, unknown>;

interface ReadValues {
  data: SlotValues;
  problems: Problem[];
}

/** Whether the writer may see a field, and thus set it. */
type FieldFilter = (field: Field) => boolean;

/** The message for a missing required value; a rule may still set the value. */
export const IS_REQUIRED = 'is required';

/** The stored form of a new record: the values of the body, and defaults for the rest. */
export function readNew(entity: Entity, input: JsonObject, isVisible: FieldFilter): ReadValues {
  const { data, problems } = readPatch(entity, input, isVisible);
  const refused = new Set(problems.map(({ path }) => path));
  // A hidden field counts as missing even if the body names it, as a field of an unknown name does.
  const isFaulty = (field: Field): boolean => isVisible(field) && refused.has(field.key);
  for (const field of entity.fields) {
    if (data[field.slot] === null) delete data[field.slot];
    else if (data[field.slot] !== undefined || isFaulty(field)) continue;
    else if (field.default !== undefined && !Object.hasOwn(input, field.key) && field.next?.isClosed !== true) {
      data[field.slot] = field.default;
    }
    if (isRequired(field) && data[field.slot] === undefined && !isFaulty(field)) {
      problems.push({ path: field.key, message: IS_REQUIRED });
    }
  }
  return { data, problems };
}

/** The stored form of the fields in the body; null clears a field. */
export function readPatch(entity: Entity, input: JsonObject, isVisible: FieldFilter): ReadValues {
  const data: SlotValues = {};
  const problems: Problem[] = [];
  for (const key of Object.keys(input)) {
    const field = entity.byKey.get(key);
    const problem =
      field === undefined || !isVisible(field) ? { message: unknownMessage(key) } : readInto(data, field, input[key]);
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
  const parsed = parseInput(field, input);
  if ('problem' in parsed) return { message: parsed.problem };
  if (field.next !== undefined) {
    const next = convertValue(field, field.next, parsed.value);
    if ('problem' in next) return { message: `${next.problem} (the field is being changed)` };
  }
  data[field.slot] = parsed.value;
  return undefined;
}

/** Parses a value that is not null, and checks that the field's index can hold it. */
export function parseInput(field: Field, input: unknown): Parsed {
  if (field.isClosed === true) return { problem: 'no longer takes values' };
  const parsed = specOf(field).parse(input, field);
  if ('problem' in parsed) return parsed;
  return exceedsIndex(field, parsed.value)
    ? { problem: `must have at most ${textMaxOf(field)} characters, since the field is indexed` }
    : parsed;
}

/** Whether a value is too long for an index entry. */
export function exceedsIndex(field: Field, value: unknown): boolean {
  const max = textMaxOf(field);
  return max !== null && isLongerThan(value as string, max);
}

/** A field that is not in a catalog yet is only in its own index. */
function textMaxOf(field: Field): number | null {
  if (field.textMax !== undefined) return field.textMax;
  return specOf(field).isFreeText && (field.unique || field.indexed) ? LIMITS.indexedTextMax : null;
}

/** A stored value of `from` in the stored form of `to`, which must accept it. */
export function convertValue(from: Field, to: Field, value: unknown): Parsed {
  const converted = convertedInput(from, to, value);
  return converted === undefined ? { problem: `cannot be converted to ${to.type}` } : parseInput(to, converted);
}

/** The input for the parser of `to` that stands for a stored value of `from`; undefined when there is none. */
function convertedInput(from: Field, to: Field, value: unknown): unknown {
  const isSameTarget = from.targetId === null || to.targetId === null || from.targetId === to.targetId;
  const convert = from.type === to.type ? (same: unknown) => same : specOf(to).convertsFrom[from.type];
  return isSameTarget ? convert?.(value) : undefined;
}

/** The value that `convertValue` will match against the pattern of `to`. */
export function conversionValue(from: Field, to: Field, value: unknown): PatternValue {
  const { pattern, maxLength } = to;
  return { pattern, maxLength, value: pattern === undefined ? null : convertedInput(from, to, value) };
}

function isRequired({ required, next }: Field): boolean {
  return required || next?.required === true;
}

/**
 * The values to store while a transition moves fields to other slots: converted values are stored beside the old ones. A value
 * that does not convert stays in the old slot only; the transition finds it there and fails. Values of retired slots are
 * dropped: they may have been removed since the record was read.
 */
export function dualWrite(entity: Entity, data: SlotValues): SlotValues | Promise<SlotValues> {
  const matched: PatternValue[] = [];
  for (const field of entity.fields) {
    const { next, slot } = field;
    if (next !== undefined && data[slot] !== undefined) matched.push(conversionValue(field, next, data[slot]));
  }
  return withMatches(matched, () => bothForms(entity, data));
}

function bothForms(entity: Entity, data: SlotValues): SlotValues {
  let stored = entity.retiredSlots.length === 0 ? data : withoutRetired(entity, data);
  for (const field of entity.fields) {
    const { next } = field;
    if (next === undefined || next.slot === field.slot) continue;
    const { [next.slot]: _, ...others } = stored;
    const value = data[field.slot];
    const parsed = value === undefined ? undefined : convertValue(field, next, value);
    stored = parsed !== undefined && 'value' in parsed ? { ...others, [next.slot]: parsed.value } : others;
  }
  return stored;
}

/** The next slot of a field counts as retired until it is in use. */
function withoutRetired({ fields, retiredSlots }: Entity, data: SlotValues): SlotValues {
  const isKept = (slot: string): boolean =>
    !retiredSlots.includes(slot) || fields.some(({ next }) => next?.slot === slot);
  return Object.fromEntries(Object.entries(data).filter(([slot]) => isKept(slot)));
}

/** The stored values after a patch; null removes a value. */
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

/**
 * The flat body of a record. A body whose only member is `data` with an object in it is unwrapped,
 * unless the writer sees a field of that name.
 */
export function unwrap(
  { entity, isVisible }: { entity: Entity; isVisible: FieldFilter },
  body: JsonObject,
): JsonObject {
  const keys = Object.keys(body);
  const inner = body.data;
  const field = entity.byKey.get('data');
  const isWrapped = keys.length === 1 && isObject(inner) && (field === undefined || !isVisible(field));
  return isWrapped ? inner : body;
}

function isObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
