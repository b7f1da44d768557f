// Example values of fields that the service accepts: each has passed its field's own parser. Values of unique fields differ
// between the operations that they are examples for.
// Failures: none; without an example, the value is undefined.
// Contract: decisions#api-document.
import { matchingText } from '../runtime/patterns/matching-text.ts';
import { sha256 } from '../runtime/tokens.ts';
import type { Field } from './field.ts';
import { withMatches } from './patterns.ts';
import { parseInput } from './values.ts';

/** Ids of records that a relation can point at, by the id of their entity. */
export type TargetIds = ReadonlyMap<string, string>;

/** A value as a stored record has it: the field's default, else an example, else null. */
export async function storedExample(field: Field, targets: TargetIds): Promise<unknown> {
  return field.default ?? (await exampleValue(field, targets, 'record')) ?? null;
}

/** An example value; undefined when none is known. */
export async function exampleValue(field: Field, targets: TargetIds, use: string): Promise<unknown> {
  if (field.next?.isClosed === true) return undefined;
  const seed = field.unique ? sha256(`${field.id} ${use}`).readUInt32BE() : 0;
  for (const value of candidates(field, targets, seed)) {
    const parsed = await withMatches([{ ...field, value }], () => parseInput(field, value));
    if ('value' in parsed) return parsed.value;
  }
  return undefined;
}

/** Values that may fit, the plainest first. A `seed` other than 0 makes them differ from the values of other seeds. */
function candidates(field: Field, targets: TargetIds, seed: number): unknown[] {
  const { type, key, label, options = [] } = field;
  const mark = seed === 0 ? '' : seed.toString(36);
  const id = targets.get(field.targetId ?? '') ?? ANY_ID;
  switch (type) {
    case 'text':
      return texts(field, seed, [`${label ?? key} ${mark}`.trim()]);
    case 'email':
      return texts(field, seed, [`ada${mark}@example.com`, `${'a'.repeat(50)}${mark}@example.com`]);
    case 'url':
      return texts(field, seed, [`https://example.com/${mark}`, `https://example.com/${mark}${'a'.repeat(100)}`]);
    case 'uuid':
      return [seed === 0 ? ANY_ID : `00000000-0000-4000-8000-${seed.toString(16).padStart(12, '0')}`];
    case 'integer':
    case 'number':
      return numbers(field, seed);
    case 'decimal':
      return numbers(field, seed).flatMap((value) => [`${value}.50`, String(value)]);
    case 'boolean':
      return [true];
    case 'date':
      return [day(seed)];
    case 'datetime':
      return [`${day(seed)}T09:30:00.000Z`];
    case 'select':
      return [options[seed % Math.max(1, options.length)]];
    case 'multiselect':
      return [options.slice(0, 1)];
    case 'json':
      return [{ note: 'any JSON value' }];
    case 'relation':
      return [id];
    case 'relations':
      return [[id]];
  }
}

/** A UUID that no record has. */
const ANY_ID = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';

/** The maximum length that a text is padded to: a definition may ask for more characters than fit into memory. */
const PADDED_MAX = 1_000;

/** The given texts, cut or padded to the field's length; then one that matches its pattern. */
function texts({ pattern, minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Field, seed: number, plain: string[]) {
  const fitted = plain.map((text) =>
    (text.length > maxLength ? `${seed.toString(36)}${text}` : text).slice(0, maxLength),
  );
  const padded = minLength > PADDED_MAX ? [] : fitted.map((text) => text.padEnd(minLength, '-'));
  const matching = pattern === undefined ? undefined : matchingText(pattern, minLength, seed);
  return [...plain, ...padded, ...(matching === undefined ? [] : [matching])];
}

/** A number between the field's limits. */
function numbers({ min, max }: Field, seed: number): number[] {
  const low = min === undefined ? (max === undefined ? 1 : Math.min(1, Number(max))) : Number(min);
  const high = max === undefined ? low + 1_000_000 : Number(max);
  const whole = Math.ceil(low) + (seed % Math.max(1, Math.floor(high) - Math.ceil(low) + 1));
  return [whole, low, high];
}

const DAY_MS = 86_400_000;

function day(seed: number): string {
  return new Date(Date.UTC(2026, 0, 31) + (seed % 100_000) * DAY_MS).toISOString().slice(0, 10);
}
