// Masks of a clone: a field's values are omitted, or replaced with hashes of the field's type, under a key that is discarded.
// Equal values stay equal, different values stay different, no hash can be traced to its value, and clones cannot be compared.
// Failures: 400 with every problem.
// Contract: portability#clone.
import { createHmac, randomBytes } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import type { Catalog } from '../entities/catalog.ts';
import type { Field, FieldType } from '../entities/field.ts';
import { invalid, type Problem } from '../errors.ts';
import { oneOf } from '../http/schemas.ts';

export const MaskInput = Type.Record(Type.String(), Type.Record(Type.String(), oneOf(['null', 'hash'])), {
  description: 'by entity and field: `null` leaves the values out, `hash` replaces them by others',
  examples: [{ people: { fullName: 'hash' } }],
});
export type MaskInput = Static<typeof MaskInput>;

/** Returns the replacement for a value that is not null. */
export type Mask = (value: unknown) => unknown;
export type MaskOf = (field: Field) => Mask | undefined;

export const noMask: MaskOf = () => undefined;

/** The masks of fields. */
export function masksOf(catalog: Catalog, input: MaskInput): MaskOf {
  const problems: Problem[] = [];
  const masks = new Map<string, Mask>();
  const key = randomBytes(32);
  const digest: Digest = (value) => createHmac('sha256', key).update(JSON.stringify(value)).digest('hex');
  for (const [name, fields] of Object.entries(input)) {
    const entity = catalog.byName.get(name);
    if (entity === undefined) problems.push({ path: `mask.${name}`, message: 'is not an entity' });
    for (const [fieldKey, kind] of Object.entries(entity === undefined ? {} : fields)) {
      const field = entity?.byKey.get(fieldKey);
      const mask = field === undefined ? 'is not a field of this entity' : maskFor(field, kind, digest);
      if (field === undefined || typeof mask === 'string') {
        problems.push({ path: `mask.${name}.${fieldKey}`, message: String(mask) });
      } else masks.set(field.id, mask);
    }
  }
  if (problems.length > 0) throw invalid(problems);
  return ({ id }) => masks.get(id);
}

/** The mask, or the reason why there is none. */
function maskFor(field: Field, kind: 'null' | 'hash', digest: Digest): Mask | string {
  if (kind === 'null') return field.required ? 'is required and cannot be null' : () => null;
  const { type, pattern, min, max } = field;
  if (pattern !== undefined) return 'cannot be hashed, having a pattern; use null';
  if (min !== undefined || max !== undefined) return 'cannot be hashed, having a min or max; use null';
  const hashedAs = VALUES[type];
  if (hashedAs !== undefined) return (value) => hashedAs(digest(value));
  const textOf = TEXTS[type];
  return textOf === undefined ? `cannot be hashed, being of type ${type}; use null` : textMask(field, textOf, digest);
}

function textMask(
  { minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Field,
  textOf: (digits: string) => string,
  digest: Digest,
): Mask | string {
  const around = textOf('').length;
  const digits = Math.min(Math.max(DIGITS.usual, minLength - around), maxLength - around);
  if (digits < DIGITS.min) return `cannot be hashed in ${maxLength} characters; use null`;
  if (digits > DIGITS.max) return `cannot be hashed in ${minLength} characters or more; use null`;
  return (value) => textOf(digest(value).slice(0, digits));
}

type Digest = (value: unknown) => string;

/** Hexadecimal digits of a hash in a text; with fewer than `min`, different values might become equal. */
const DIGITS = { min: 16, usual: 32, max: 64 };
const HOST = 'example.invalid';

/** Hashes as values of the text types. */
const TEXTS: { readonly [Type in FieldType]?: (digits: string) => string } = {
  text: (digits) => digits,
  email: (digits) => `${digits}@${HOST}`,
  url: (digits) => `https://${HOST}/${digits}`,
};

/** Hashes as values of other types, from 64 digits. */
const VALUES: { readonly [Type in FieldType]?: (digits: string) => unknown } = {
  uuid: (digits) => asUuid(digits),
  integer: (digits) => Number.parseInt(digits.slice(0, 13), 16),
  number: (digits) => Number.parseInt(digits.slice(0, 13), 16),
  decimal: (digits) => String(BigInt(`0x${digits.slice(0, 24)}`)),
};

/** A UUID of version 8, whose other bits have no meaning. */
function asUuid(digits: string): string {
  const [a, b, c, d, e] = [
    [0, 8],
    [8, 12],
    [13, 16],
    [17, 20],
    [20, 32],
  ].map(([from, to]) => digits.slice(from, to));
  return `${a}-${b}-8${c}-a${d}-${e}`;
}
