// How a route describes itself in the API document: operation id, tag, words, answers. Schemas are
// TypeBox; one with an `$id` becomes a named schema of the document. An `examples` member is shown
// and checked. The document itself is put together in the docs room.
import { type TSchema, Type } from '@sinclair/typebox';
import type { ErrorCode } from '../errors.ts';
import { closed } from './schemas.ts';

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
  params?: Readonly<Record<string, string>>;
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

export {
  closed,
  Deleted,
  Ignored as Idle,
  nullable,
  open,
  pageSchema,
  Revoked,
  Timestamp,
  Uuid,
} from './schemas.ts';

/** The same where every member may be left out. */
export function closedChange<T extends Parameters<typeof Type.Object>[0]>(properties: T) {
  return Type.Partial(closed(properties), { additionalProperties: false });
}
