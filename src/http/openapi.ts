// How a route describes itself in the API document: operation id, tag, words, answers. Schemas are
// TypeBox; one with an `$id` becomes a named schema of the document. An `examples` member is shown
// and checked. The document itself is put together in the docs room.
import { type TSchema, Type } from '@sinclair/typebox';
import type { ErrorCode } from '../errors.ts';

/** Request headers with a meaning of their own; the document holds their words. */
export type RequestHeader = 'If-Match' | 'If-None-Match' | 'Idempotency-Key';

/** The route's place in the document. Give every route one. */
export interface Description {
  /** camelCase verb and noun, unique, never changed. */
  id: string;
  tag: string;
  summary: string;
  description?: string;
  /** Set on a route that asks for no credential; the others state `access`. */
  isOpen?: true;
  /** The status and `data` schema of the answer; content types instead of a schema for an answer outside the envelope. */
  ok: readonly [status: 200 | 201, data: TSchema | string | readonly string[]];
  /** Codes besides those that every route of its kind may answer. */
  errors?: readonly ErrorCode[];
  /** JSON answers in a protocol of their own, by status, besides the envelope's. */
  foreign?: Readonly<Record<number, TSchema>>;
  /** Answers without a body, by status, such as 304. */
  bare?: Readonly<Record<number, string>>;
  /** Headers of the good answer, with their meaning. */
  headers?: Readonly<Record<string, string>>;
  /** Request headers that the operation heeds. */
  takes?: readonly RequestHeader[];
  /** The request body in the document, where the operation itself checks it and the route takes any object. */
  body?: TSchema;
  /** Content types of a request body that is not JSON. */
  bodyTypes?: readonly string[];
}

/** The framework's `detail` for a route; what the document's builder needs is under `x-svc`. */
export function describe(description: Description): object {
  const { id, tag, summary, isOpen } = description;
  return {
    operationId: id,
    tags: [tag],
    summary,
    'x-svc': description,
    ...(isOpen === true ? { 'x-access': 'open', security: [] } : {}),
  };
}

/** A request body or query: unknown members are let through here, and named or ignored by the operation. */
export function open<T extends Parameters<typeof Type.Object>[0]>(properties: T) {
  return Type.Object(properties, { additionalProperties: true });
}

/** A request body that takes no other members. For the document: the operation names each of them. */
export function closed<T extends Parameters<typeof Type.Object>[0]>(properties: T) {
  return Type.Object(properties, { additionalProperties: false });
}

/** The same where every member may be left out. */
export function closedChange<T extends Parameters<typeof Type.Object>[0]>(properties: T) {
  return Type.Partial(closed(properties), { additionalProperties: false });
}

/** A member of a closed request body that the service decides by itself: it may be sent, and means nothing. */
export const Idle = Type.Optional(Type.Unknown({ readOnly: true, description: 'may be sent, and means nothing' }));

const UUID_PATTERN = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';

/** Shapes that many rooms answer with. */
export const Uuid = Type.String({
  pattern: UUID_PATTERN,
  description: 'UUID',
  error: 'must be a UUID',
  examples: ['01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'],
});
export const Timestamp = Type.String({
  pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$',
  description: 'ISO 8601 UTC timestamp with milliseconds',
  examples: ['2026-03-01T09:30:00.000Z'],
});

export function nullable<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()]);
}

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
