// The `responses` of an operation: the success in its envelope, and one response per status for the errors that the route names
// or that every route of its kind may return. Error responses are components named after their codes.
// Contract: decisions#api-document, decisions#status-codes.
import { type TSchema, Type } from '@sinclair/typebox';
import { type ErrorCode, SECOND_STATUS, STATUS_BY_CODE } from '../errors.ts';
import { DryRunSchema } from '../http/dry-run.ts';
import { ANY_PARAMETERS } from '../http/parameters.ts';
import type { Route } from '../http/route.ts';
import { ProblemSchema } from '../http/schemas.ts';
import { exampleOf } from './example.ts';
import { RATE_HEADERS, TEXT_EXAMPLES } from './prose.ts';
import type { JsonSchema, Schemas } from './schema.ts';

interface Kind {
  isOpen: boolean;
  hasPathParameters: boolean;
}

/** Per code, the description of its response and the message of its example. */
const ERROR_TEXTS: Readonly<Record<ErrorCode, [description: string, message: string]>> = {
  VALIDATION_ERROR: ['The request is malformed; `details` lists every problem.', 'title: is required'],
  BUSINESS_RULE_ERROR: ['A business rule of the tenant refuses the change.', 'closed tickets cannot be changed'],
  UNAUTHORIZED: ['The credential is missing, invalid, revoked or expired.', 'missing or invalid credential'],
  FORBIDDEN: ['The credential does not permit this.', 'no permission for this operation'],
  NOT_FOUND: ['It does not exist, or the caller may not see it.', 'record not found'],
  METHOD_NOT_ALLOWED: ['The path has other methods; `Allow` lists them.', 'PUT is not allowed here'],
  REQUEST_TIMEOUT: ['The body arrives too slowly; the connection is closed.', 'the request body arrives too slowly'],
  CONFLICT: ['The current state does not allow it.', 'a record with this sku already exists'],
  GONE: ['It has expired, or is no longer kept.', 'this invitation has expired'],
  PRECONDITION_FAILED: ['The record has changed since its ETag was read.', 'the record has changed'],
  PAYLOAD_TOO_LARGE: ['The body is larger than allowed.', 'the body is larger than 1048576 bytes'],
  UNSUPPORTED_MEDIA_TYPE: ['The body’s type or encoding is not accepted.', 'send the body as application/json'],
  IDEMPOTENCY_MISMATCH: [
    'The Idempotency-Key was used with another body.',
    'this Idempotency-Key was used with another body',
  ],
  RATE_LIMITED: ['Too many requests; `Retry-After` says when to retry.', 'too many requests'],
  CLIENT_GONE: ['The client closed the connection; only logs and metrics show it.', 'the client has gone'],
  QUOTA_EXCEEDED: [
    'The tenant’s quota is exceeded; `details` names it, its limit and its use.',
    "this tenant's quota of 1000 records is exceeded: 1000 are used",
  ],
  INTERNAL_ERROR: ['An unexpected failure; the log has it under the request id.', 'internal server error'],
  SERVICE_UNAVAILABLE: [
    'Postgres or Redis is unreachable, or the process has too many requests.',
    'the database cannot be reached',
  ],
};

/** The `responses` member of an operation; adds new error responses to `components`. */
export function responsesOf(
  route: Route,
  kind: Kind,
  schemas: Schemas,
  components: Record<string, JsonSchema>,
): JsonSchema {
  const [status] = route.ok;
  const responses: JsonSchema = { [status]: successResponse(route, kind, schemas) };
  for (const [also, description] of Object.entries(route.alsoOk ?? {})) {
    responses[also] = { ...(responses[status] as JsonSchema), description };
  }
  for (const [empty, description] of Object.entries(route.emptyResponses ?? {})) {
    const answer = { description, headers: headersOf(route, kind) };
    const raw = route.rawResponses?.[Number(empty)];
    responses[empty] = raw === undefined ? answer : withRaw({ ...answer, content: {} }, raw, schemas);
  }
  for (const [error, codes] of byStatus(codesOf(route, kind))) {
    const name = codes.map(pascal).join('Or');
    components[name] ??= errorResponse(error, codes, schemas);
    responses[error] = { $ref: `#/components/responses/${name}` };
    const raw = route.rawResponses?.[error];
    if (raw !== undefined) responses[error] = withRaw(errorResponse(error, codes, schemas), raw, schemas);
  }
  const raw = route.rawResponses?.[status];
  if (raw !== undefined) responses[status] = withRaw(responses[status] as JsonSchema, raw, schemas);
  return responses;
}

/** Adds a second JSON shape to a response. */
function withRaw(answer: JsonSchema, raw: TSchema, schemas: Schemas): JsonSchema {
  const content = answer.content as JsonSchema;
  const own = content['application/json'] as { schema: JsonSchema; examples: JsonSchema } | undefined;
  const schema = schemas.of(raw);
  const example = { value: exampleOf(schema, schemas.components) };
  const json =
    own === undefined
      ? { schema, example: example.value }
      : { schema: { anyOf: [own.schema, schema] }, examples: { ...own.examples, 'JSON-RPC': example } };
  return { ...answer, content: { ...content, 'application/json': json } };
}

function successResponse(route: Route, kind: Kind, schemas: Schemas): JsonSchema {
  const [status, data] = route.ok;
  if (status === 101) return { description: 'The connection is a WebSocket.' };
  return {
    description: status === 201 ? 'Created.' : 'OK.',
    headers: headersOf(route, kind),
    content:
      typeof data === 'string' || Array.isArray(data)
        ? Object.fromEntries([data].flat().map((type) => [type, textContent(type)]))
        : { 'application/json': enveloped(route, schemas.of(data as TSchema), schemas) },
  };
}

/** A body outside the envelope: a text, or any JSON object. */
export function textContent(type: string): JsonSchema {
  if (type === 'application/json') return { schema: { type: 'object' } };
  const example = TEXT_EXAMPLES[type];
  return { schema: { type: 'string' }, ...(example === undefined ? {} : { example }) };
}

function enveloped({ query }: Route, data: JsonSchema, schemas: Schemas): JsonSchema {
  const dryRun = query?.properties.dryRun === undefined ? {} : { dryRun: schemas.of(DryRunSchema) };
  const schema = {
    type: 'object',
    required: ['success', 'data'],
    properties: { success: { const: true }, data, ...dryRun },
  };
  return { schema, example: { success: true, data: exampleOf(data, schemas.components) } };
}

function headersOf({ responseHeaders = {} }: Route, { isOpen }: Kind): JsonSchema {
  const own = Object.entries(responseHeaders).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ]);
  return {
    'X-Request-Id': { $ref: '#/components/headers/RequestId' },
    ...Object.fromEntries(own),
    ...(isOpen ? {} : RATE_HEADERS),
  };
}

/** The codes that an operation may return, in the order of the table of codes. */
function codesOf({ errors = [], body, rawBody, bodyTypes = [], query }: Route, kind: Kind): ErrorCode[] {
  const hasBody = body !== undefined || rawBody !== undefined;
  // A process with too many requests refuses further ones on every route.
  const codes = new Set<ErrorCode>(['INTERNAL_ERROR', 'SERVICE_UNAVAILABLE', ...errors]);
  const add = (...more: ErrorCode[]): void => more.forEach((code) => void codes.add(code));
  // On any operation, a tenant header can be malformed or name no tenant.
  if (!kind.isOpen) {
    add('VALIDATION_ERROR', 'UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED', 'QUOTA_EXCEEDED');
  }
  if (hasBody || bodyTypes.length > 0) {
    add('VALIDATION_ERROR', 'REQUEST_TIMEOUT', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE');
  }
  if (kind.hasPathParameters) add('NOT_FOUND');
  if (query !== ANY_PARAMETERS) add('VALIDATION_ERROR');
  return (Object.keys(STATUS_BY_CODE) as ErrorCode[]).filter((code) => codes.has(code));
}

function byStatus(codes: ErrorCode[]): Map<number, ErrorCode[]> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    for (const status of [STATUS_BY_CODE[code], SECOND_STATUS[code]]) {
      if (status !== undefined) byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
    }
  }
  return byStatus;
}

function errorResponse(status: number, codes: ErrorCode[], schemas: Schemas): JsonSchema {
  const schema = schemas.of(errorSchema(codes));
  const examples = codes.map((code) => [code, { value: { success: false, error: errorExample(code) } }]);
  return {
    description: codes.map((code) => ERROR_TEXTS[code][0]).join(' '),
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/RequestId' },
      ...(status === 429 || status === 503 ? { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } } : {}),
      ...(status === 429 ? RATE_HEADERS : {}),
    },
    content: { 'application/json': { schema, examples: Object.fromEntries(examples) } },
  };
}

function errorSchema(codes: readonly ErrorCode[]): TSchema {
  return Type.Object({
    success: Type.Literal(false),
    error: Type.Object({
      code: Type.Union(codes.map((code) => Type.Literal(code))),
      message: Type.String(),
      requestId: Type.String(),
      details: Type.Optional(Type.Array(ProblemSchema)),
    }),
  });
}

function errorExample(code: ErrorCode): JsonSchema {
  const message = ERROR_TEXTS[code][1];
  const details = code === 'VALIDATION_ERROR' ? { details: [{ path: 'title', message: 'is required' }] } : {};
  return { code, message, requestId: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f', ...details };
}

function pascal(code: string): string {
  return code.toLowerCase().replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
}
