// TypeBox schemas that many features share, for requests and responses. A schema with an `$id` is a named schema
// of the API document; `examples` are shown there and checked by a test; `error` is the message of a problem.
// Lengths are in UTF-16 units.
import {
  Kind,
  type TArray,
  type TProperties,
  type TSchema,
  type TString,
  type TUnsafe,
  Type,
  TypeRegistry,
} from '@sinclair/typebox';
import { OPERATIONS, RESOURCE, RESOURCE_OR_WILDCARD } from '../access/rights.ts';

type Options = Readonly<Record<string, unknown>>;

/** A request body or query whose unknown members are ignored. */
export function open<T extends TProperties>(properties: T) {
  return Type.Object(properties, { additionalProperties: true });
}

/** A request body that accepts no other members. */
export function closed<T extends TProperties>(properties: T, options: Options = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

/** A closed body whose members are all optional and nullable. */
export function closedChange<T extends TProperties>(properties: T, options: Options = {}) {
  type Change = { [K in keyof T]: ReturnType<typeof optional<T[K]>> };
  const members = Object.entries(properties).map(([name, schema]) => [name, optional(schema)]);
  return closed(Object.fromEntries(members) as Change, options);
}

export function nullable<T extends TSchema>(schema: T, options: Options = {}) {
  return Type.Union([schema, Type.Null()], options);
}

/** An optional, nullable member; null means the same as absent unless the operation says otherwise. */
export function optional<T extends TSchema>(schema: T) {
  return Type.Optional(nullable(schema, schema.error === undefined ? {} : { error: schema.error }));
}

/** A member of a closed request body that the service sets itself: accepted and ignored. */
export const Ignored = Type.Optional(Type.Unknown({ readOnly: true, description: 'accepted and ignored' }));

/** One of a set of strings. */
export function oneOf<const T extends string>(values: readonly T[], options: Options = {}): TUnsafe<T> {
  return Type.Union(
    values.map((value) => Type.Literal(value)),
    options,
  ) as unknown as TUnsafe<T>;
}

/** A list of one or more distinct values of a set. */
export function someOf<const T extends string>(values: readonly T[], options: Options = {}) {
  const error = `must be a list of one or more of ${values.join(', ')}`;
  return Type.Array(oneOf(values), { minItems: 1, maxItems: values.length, uniqueItems: true, error, ...options });
}

TypeRegistry.Set<TArray<TString>>('TextSet', ({ items, minItems = 0, maxItems = Number.POSITIVE_INFINITY }, value) => {
  if (!Array.isArray(value) || value.length < minItems || value.length > maxItems) return false;
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = items;
  const isText = (item: unknown) => typeof item === 'string' && item.length >= minLength && item.length <= maxLength;
  return value.every(isText) && new Set(value).size === value.length;
});

/** A list of different strings, which may be long: TypeBox takes 3 µs for each item of its own `uniqueItems`. */
export function textSet(item: TString, options: Options & { maxItems: number; error: string }) {
  return Type.Unsafe<string[]>({ ...Type.Array(item, { uniqueItems: true, ...options }), [Kind]: 'TextSet' });
}

/** A string of 1 to `max` characters that is not blank. */
export function text(max: number, options: Options = {}) {
  return Type.String({ minLength: 1, maxLength: max, pattern: '\\S', ...options });
}

TypeRegistry.Set('FutureTimestamp', (_, value) => {
  return typeof value === 'string' && /^\d{4}-\d{2}-\d{2}/.test(value) && Date.parse(value) > Date.now();
});

/** An ISO 8601 timestamp in the future. */
export const FutureTimestamp = Type.Unsafe<string>({
  type: 'string',
  description: 'ISO 8601, in the future',
  error: 'must be an ISO 8601 timestamp in the future',
  examples: ['2030-01-01T00:00:00.000Z'],
  [Kind]: 'FutureTimestamp',
});

export const Uuid = Type.String({
  pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$',
  description: 'UUID',
  error: 'must be a UUID',
  examples: ['01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'],
});
export const Timestamp = Type.String({
  pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$',
  description: 'ISO 8601 UTC timestamp with milliseconds',
  examples: ['2026-03-01T09:30:00.000Z'],
});

/** When a credential was last used; null before its first use. */
export const LastUsedAt = nullable(Timestamp, { description: 'accurate to a minute; null before the first use' });

export function pageSchema<T extends TSchema>(item: T) {
  return Type.Object({
    items: Type.Array(item),
    total: Type.Integer({ minimum: 0, examples: [1] }),
    page: Type.Integer({ minimum: 1 }),
    limit: Type.Integer({ minimum: 1, examples: [20] }),
    totalPages: Type.Integer({ minimum: 0, examples: [1] }),
  });
}

const AnyId = Type.String({ examples: Uuid.examples as string[] });
export const Deleted = Type.Object({ id: AnyId, deleted: Type.Literal(true) });
export const Revoked = Type.Object({ id: AnyId, revoked: Type.Literal(true) });

/** Distinct operations. */
export const Operations = Type.Array(oneOf(OPERATIONS), {
  maxItems: OPERATIONS.length,
  uniqueItems: true,
  error: `must be a list of different operations out of ${OPERATIONS.join(', ')}`,
});

/** Values by resource, including `*` and `view:*`. */
export function byResource<T extends TSchema>(value: T, options: Options = {}) {
  return keyed(RESOURCE_OR_WILDCARD, value, 'is not an entity, view:<slug>, agent:<name>, * or view:*', options);
}

/** Values by resource, without wildcards. */
export function byNamedResource<T extends TSchema>(value: T, options: Options = {}) {
  return keyed(RESOURCE, value, 'is not an entity, view:<slug> or agent:<name>; wildcards are not accepted', options);
}

function keyed<T extends TSchema>(key: RegExp, value: T, keyError: string, options: object) {
  const schema = { additionalProperties: false, keyError, ...options };
  return Type.Record(Type.String({ pattern: key.source }), value, schema) as unknown as TUnsafe<
    Record<string, T['static']>
  >;
}

/** An item of an error's `details`. */
export const ProblemSchema = Type.Object(
  {
    path: Type.String({ examples: ['title'] }),
    message: Type.String({ examples: ['is required'] }),
    code: Type.Optional(
      Type.String({
        description: 'the code of the error, where it is not that of the response',
        examples: ['PRECONDITION_FAILED'],
      }),
    ),
    quota: Type.Optional(Type.String({ description: 'the quota that is exceeded', examples: ['records'] })),
    limit: Type.Optional(Type.Integer({ minimum: 0, description: 'the limit of the quota', examples: [1_000] })),
    used: Type.Optional(Type.Integer({ minimum: 0, description: 'how much of it is used', examples: [1_000] })),
  },
  { $id: 'Problem', description: 'A problem of a request: where, and what' },
);
