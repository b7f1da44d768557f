// What a route states, once: who may use it, its query and body, its answer, its place in the API
// document. `route` turns that into the framework's options; handlers and typed clients take their types
// from it. The body's schema is checked by the operation (`check`), after its own 403 and 404.
// Contract: decisions#responses.
import { type Static, type TObject, type TSchema, type TUnsafe, Type } from '@sinclair/typebox';
import type { Access, PlatformAccess, TenantAccess } from '../access/route-access.ts';
import type { ErrorCode, STATUS_BY_CODE } from '../errors.ts';
import { queryConversion } from './parameters.ts';
import type { Envelope, Failure } from './reply.ts';

/** Request headers with a meaning of their own; the document describes them. */
export type RequestHeader = 'If-Match' | 'If-None-Match' | 'Idempotency-Key';

/** An answer's `data`; content types instead of a schema for an answer outside the envelope. */
export type Data = TSchema | string | readonly string[];

export interface Route<A extends Access = Access, S extends 200 | 201 = 200 | 201, D extends Data = Data> {
  /** The operation id: camelCase verb and noun, unique, never changed. */
  id: string;
  tag: string;
  summary: string;
  description?: string;
  access: A;
  /** The status and `data` of the good answer. */
  ok: readonly [status: S, data: D];
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
  /** Descriptions of path parameters that the document does not know by name; an open route names all of its own. */
  params?: Readonly<Record<string, string>>;
  body?: TSchema;
  query?: TObject;
  /** A JSON body that the handler reads itself; for the document alone. */
  rawBody?: TSchema;
  /** Content types of a request body that is not JSON. */
  bodyTypes?: readonly string[];
  /** For the document: whom the handler of an open route admits by itself. */
  admits?: { 'x-access': Access; security: readonly object[] };
}

interface Inputs<B, Q> {
  body?: B;
  query?: Q;
}

type ErrorStatus = (typeof STATUS_BY_CODE)[ErrorCode];

/** The framework's options. The `response` is for the types alone: answers leave as a `Response`, which is not checked. */
type Options<A, S extends number, D, B, Q> = { detail: object } & (A extends TenantAccess
  ? { tenant: A }
  : A extends PlatformAccess
    ? { platform: A }
    : unknown) &
  (B extends TSchema ? { json: true; body: TUnsafe<Static<B>> } : unknown) &
  (Q extends TSchema ? { query: Q } : unknown) &
  (D extends TSchema
    ? { response: { [K in S]: TUnsafe<Envelope<Static<D>>> } & { [K in ErrorStatus]: TUnsafe<Failure> } }
    : unknown);

const ANY_BODY = Type.Any();
/** Makes a path parameter that is not valid UTF-8 a 404 where no macro does. */
const PATH_TEXTS = Type.Record(Type.String(), Type.String());

/** The framework's options for a route. */
export function route<
  const A extends Access,
  const S extends 200 | 201,
  const D extends Data,
  B extends TSchema | undefined = undefined,
  Q extends TObject | undefined = undefined,
>(stated: Omit<Route<A, S, D>, 'body' | 'query'> & Inputs<B, Q>): Options<A, S, D, B, Q> {
  const { id, tag, summary, access, body, query, params } = stated;
  return {
    ...(access === 'open' ? {} : isTenantAccess(access) ? { tenant: access } : { platform: access }),
    ...(body === undefined ? {} : { json: true, body: ANY_BODY }),
    ...(query === undefined ? {} : { query, transform: queryConversion(query) ?? [] }),
    ...(access === 'open' && params !== undefined ? { params: PATH_TEXTS } : {}),
    detail: {
      operationId: id,
      tags: [tag],
      summary,
      'x-svc': stated,
      ...(access === 'open' ? (stated.admits ?? { 'x-access': access, security: [] }) : {}),
    },
  } as unknown as Options<A, S, D, B, Q>;
}

function isTenantAccess(access: Access): access is TenantAccess {
  return access === 'tenant' || access === 'admin';
}
