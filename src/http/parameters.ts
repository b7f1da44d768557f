// Query parameters that are not text. The framework's own coercing types report one problem at a
// time and lose its name; these check the text as it stands, so that every problem is named at
// once, and show as plain integers and booleans in the API document.
import { Kind, type TSchema, type TUnsafe, Type, TypeRegistry } from '@sinclair/typebox';

interface IntegerSchema extends TSchema {
  minimum: number;
  maximum: number;
}

TypeRegistry.Set<IntegerSchema>('QueryInteger', ({ minimum, maximum }, value) => {
  // The framework fills in a default as the number it is.
  if (!/^\d{1,15}$/.test(String(value))) return false;
  return Number(value) >= minimum && Number(value) <= maximum;
});
TypeRegistry.Set('QueryFlag', (_, value) => /^(true|false)$/.test(String(value)));

interface Words {
  description?: string;
  default?: number | boolean;
}

/** A whole number in a query, still as its text: convert with `numberFrom`. */
export function integerParameter(minimum: number, maximum: number, words: Words = {}): TUnsafe<string> {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  return Type.Unsafe<string>({ ...words, type: 'integer', minimum, maximum, error, [Kind]: 'QueryInteger' });
}

/** `true` or `false` in a query, still as its text: convert with `flagFrom`. */
export function flagParameter(words: Words = {}): TUnsafe<string> {
  return Type.Unsafe<string>({ ...words, type: 'boolean', error: 'must be true or false', [Kind]: 'QueryFlag' });
}

export function numberFrom(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

export function flagFrom(text: string | undefined): boolean | undefined {
  return text === undefined ? undefined : String(text) === 'true';
}
