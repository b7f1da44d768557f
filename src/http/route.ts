// Declares a route once: who may use it, its query, body and response, its entry in the API document. `route`
// turns the declaration into the framework's options; handlers and typed clients take their types from it. The
// operation validates the body (`check`), after its own 403 and 404.
// Contract: decisions#responses.
import { type Static, type TObject, type TSchema, type TUnsafe, Type } from '@sinclair/typebox';
import type { Caller } from '../access/caller.ts';
import type { Operation } from '../access/rights.ts';
import type { Access, PlatformAccess, TenantAccess } from '../access/route-access.ts';
import type { ErrorCode, STATUS_BY_CODE } from '../errors.ts';
import type { RightOf, RouteInputs } from './guard.ts';
import { NO_PARAMETERS, queryReader } from './parameters.ts';
import type { Envelope, Failure } from './reply.ts';

/** Request headers that some operations use; the document describes them. */
export type RequestHeader = 'If-Match' | 'If-None-Match' | 'Idempotency-Key';

/** The schema of a response's `data`, or the content types of a response outside the envelope. */
export type Data = TSchema | string | readonly string[];

/** The status of a success; 101 for a WebSocket. */
type Success = 101 | 200 | 201;

export interface Route<A extends Access = Access, S extends Success = Success, D extends Data = Data> {
  /** The operation id: camelCase verb and noun, unique, never changed. */
  id: string;
  tag: string;
  summary: string;
  description?: string;
  access: A;
  /** The status and `data` of the successful response. */
  ok: readonly [status: S, data: D];
  /** Descriptions of further statuses of the same successful response. */
  alsoOk?: Readonly<Record<number, string>>;
  /** Error codes in addition to the codes of every route of this kind. */
  errors?: readonly ErrorCode[];
  /** JSON responses outside the envelope, by status, besides those inside it. */
  rawResponses?: Readonly<Record<number, TSchema>>;
  /** Descriptions of responses without a body or with a raw one, by status, such as 304. */
  emptyResponses?: Readonly<Record<number, string>>;
  /** Headers of the successful response, with their descriptions. */
  responseHeaders?: Readonly<Record<string, string>>;
  /** Request headers that the operation uses. */
  requestHeaders?: readonly RequestHeader[];
  /** Descriptions of path parameters that the document does not know by name; an open route describes all. */
  params?: Readonly<Record<string, string>>;
  body?: TSchema;
  /** The example of the body, where the usual one would not do: the demo tenant accepts it as it is. A text for `bodyTypes`. */
  example?: unknown;
  /** Examples of path parameters, by name: of the demo tenant. */
  pathExamples?: Readonly<Record<string, string>>;
  /** A request without a body means an empty object. */
  isBodyOptional?: boolean;
  /** The parameters; a route without it takes none. */
  query?: TObject;
  /** For the document: whether a caller of the access level may use it, where that depends on more. */
  mayCall?: (caller: Caller) => boolean;
  /** The right that the caller needs on the entity that the path names; 403. */
  right?: Operation | RightOf;
  /** A JSON body that the handler reads itself; for the document alone. */
  rawBody?: TSchema;
  /** Content types of a request body that is not JSON. */
  bodyTypes?: readonly string[];
  /** For the document: the callers that the handler of an open route itself admits. */
  admits?: { 'x-access': Access; security: readonly object[] };
}

interface Inputs<B, Q> {
  body?: B;
  query?: Q;
}

type ErrorStatus = (typeof STATUS_BY_CODE)[ErrorCode];

/** The framework's options. `response` is for the types only: handlers return a `Response`, which is not validated. */
type Options<A, S extends number, D, B, Q> = {
  detail: object;
  parse: () => null;
  inputs: RouteInputs;
} & (A extends TenantAccess ? { tenant: A } : A extends PlatformAccess ? { platform: A } : unknown) &
  (B extends TSchema ? { body: TUnsafe<Static<B>> } : unknown) &
  (Q extends TSchema ? { query: Q } : unknown) &
  (D extends TSchema
    ? { response: { [K in S]: TUnsafe<Envelope<Static<D>>> } & { [K in ErrorStatus]: TUnsafe<Failure> } }
    : unknown);

/** The framework checks neither: the query is checked before the handler, the body by the operation. */
const ANY = Type.Any();
/** Rejects a path parameter that is not valid UTF-8 with 404, on routes whose macros do not. */
const PATH_TEXTS = Type.Record(Type.String(), Type.String());

/** The framework's options for a route. */
export function route<
  const A extends Access,
  const S extends Success,
  const D extends Data,
  B extends TSchema | undefined = undefined,
  Q extends TObject | undefined = undefined,
>(declaration: Omit<Route<A, S, D>, 'body' | 'query'> & Inputs<B, Q>): Options<A, S, D, B, Q> {
  const { id, tag, summary, access, body, query = NO_PARAMETERS, params } = declaration;
  return {
    ...(access === 'open' ? {} : isTenantAccess(access) ? { tenant: access } : { platform: access }),
    // The framework would parse a body that no handler wants.
    parse: () => null,
    ...(body === undefined ? {} : { body: ANY }),
    inputs: {
      id,
      right: declaration.right,
      readQuery: queryReader(query),
      body: body === undefined ? 'none' : declaration.isBodyOptional === true ? 'optional' : 'required',
    },
    ...(access === 'open' && params !== undefined ? { params: PATH_TEXTS } : {}),
    detail: {
      operationId: id,
      tags: [tag],
      summary,
      'x-svc': declaration,
      ...(access === 'open' ? (declaration.admits ?? { 'x-access': access, security: [] }) : {}),
    },
  } as unknown as Options<A, S, D, B, Q>;
}

function isTenantAccess(access: Access): access is TenantAccess {
  return access === 'tenant' || access === 'admin' || access === 'ticket';
}
