// Query parameters that are not text. The framework's own coercing types report one problem at a time
// and lose its name; these check the text first, so that every problem is named at once, then convert
// it. The API document shows plain integers and booleans.
// Contract: interface#list.
import { Kind, type Static, type TObject, type TSchema, type TUnsafe, Type, TypeRegistry } from '@sinclair/typebox';
import { LIMITS } from '../limits.ts';

interface IntegerSchema extends TSchema {
  minimum: number;
  maximum: number;
}

TypeRegistry.Set<IntegerSchema>('QueryInteger', ({ minimum, maximum }, value) => {
  // The framework fills in a default as a number.
  if (!/^\d{1,15}$/.test(String(value))) return false;
  return Number(value) >= minimum && Number(value) <= maximum;
});
TypeRegistry.Set('QueryFlag', (_, value) => /^(true|false)$/.test(String(value)));

interface Options {
  description?: string;
  default?: number | boolean;
}

/** A whole number in a query. */
export function integerParameter(minimum: number, maximum: number, words: Options = {}): TUnsafe<number> {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  const schema = { ...words, type: 'integer', minimum, maximum, error, [Kind]: 'QueryInteger' };
  return converted(schema, (text) => Number(text));
}

/** `true` or `false` in a query. */
export function flagParameter(words: Options = {}): TUnsafe<boolean> {
  const schema = { ...words, type: 'boolean', error: 'must be true or false', [Kind]: 'QueryFlag' };
  return converted(schema, (text) => String(text) === 'true');
}

/** `convert` may be applied twice. */
function converted<T>(schema: object, convert: (text: unknown) => T): TUnsafe<T> {
  const transform = Type.Transform(Type.Unsafe(schema)).Decode(convert).Encode(String);
  return transform as unknown as TUnsafe<T>;
}

const { pageMax, limitMax, limitDefault } = LIMITS.list;

/** The parameters of every list that has pages. */
export function pageParameters(defaultLimit: number = limitDefault) {
  return {
    page: Type.Optional(integerParameter(1, pageMax, { default: 1, description: '1-indexed page' })),
    limit: Type.Optional(integerParameter(1, limitMax, { default: defaultLimit, description: 'items per page' })),
  };
}
export type Paging = Static<TObject<ReturnType<typeof pageParameters>>>;
