// Query parameters that are not text. The framework's own coercing types report only one problem at a time, without
// the parameter's name, and its transforms cost 15 µs a request; here a hook converts well-formed strings, and
// validation then reports all the others. The API document shows plain integers and booleans.
// Contract: interface#list.
import { Kind, type Static, type TObject, type TSchema, type TUnsafe, Type, TypeRegistry } from '@sinclair/typebox';
import { LIMITS } from '../limits.ts';

interface IntegerSchema extends TSchema {
  minimum: number;
  maximum: number;
}

TypeRegistry.Set<IntegerSchema>('QueryInteger', ({ minimum, maximum }, value) => {
  return typeof value === 'number' && value >= minimum && value <= maximum;
});
TypeRegistry.Set('QueryFlag', (_, value) => typeof value === 'boolean');

interface Options {
  description?: string;
  default?: number | boolean;
}

/** A whole number in a query. */
export function integerParameter(minimum: number, maximum: number, options: Options = {}): TUnsafe<number> {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  return Type.Unsafe<number>({ ...options, type: 'integer', minimum, maximum, error, [Kind]: 'QueryInteger' });
}

/** `true` or `false` in a query. */
export function flagParameter(options: Options = {}): TUnsafe<boolean> {
  return Type.Unsafe<boolean>({ ...options, type: 'boolean', error: 'must be true or false', [Kind]: 'QueryFlag' });
}

/** The hook that converts the numbers and flags of a query; undefined when it has none. */
export function queryConversion({ properties }: TObject) {
  const named = (kind: string) => Object.keys(properties).filter((name) => properties[name]?.[Kind] === kind);
  const [integers, flags] = [named('QueryInteger'), named('QueryFlag')];
  if (integers.length + flags.length === 0) return undefined;
  return ({ query }: { query: Record<string, unknown> }): void => {
    for (const name of integers) if (/^\d{1,15}$/.test(String(query[name]))) query[name] = Number(query[name]);
    for (const name of flags)
      if (query[name] === 'true' || query[name] === 'false') query[name] = query[name] === 'true';
  };
}

const { pageMax, limitMax, limitDefault } = LIMITS.list;

/** The parameters of every paginated list. */
export function pageParameters(defaultLimit: number = limitDefault) {
  return {
    page: Type.Optional(integerParameter(1, pageMax, { default: 1, description: '1-indexed page' })),
    limit: Type.Optional(integerParameter(1, limitMax, { default: defaultLimit, description: 'items per page' })),
  };
}
export type Paging = Static<TObject<ReturnType<typeof pageParameters>>>;
