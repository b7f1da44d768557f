// Builds responses: the envelope, one JSON content type on every runtime, and the headers of all JSON responses.
// An error has its own status and headers.
// Contract: decisions#responses.
import { Buffer } from 'node:buffer';
import type { ErrorCode, Problem, ServiceError } from '../errors.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

/** A property of the response: reading its body would turn it into a stream, and a WeakMap costs microseconds on Deno. */
const BODY_BYTES = Symbol('bytes of the body');
type Sized = Response & { [BODY_BYTES]?: number };

/** Bytes of the body; undefined when it is streamed or was not built here. */
export function bodyBytesOf(response: Response): number | undefined {
  return (response as Sized)[BODY_BYTES];
}

/** A response with this JSON text; null for a status without a body. */
export function jsonText(text: string | null, status = 200, headers: Record<string, string> = {}): Response {
  return json(text, status, headers);
}

function json(body: string | Uint8Array | null, status: number, headers: Record<string, string> = {}): Response {
  const response = new Response(body as BodyInit | null, {
    status,
    headers: {
      'content-type': JSON_TYPE,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    },
  });
  (response as Sized)[BODY_BYTES] = typeof body === 'string' ? Buffer.byteLength(body) : (body?.byteLength ?? 0);
  return response;
}

/** The body of a successful response. */
export interface Envelope<T> {
  success: true;
  data: T;
}

/** 200 `{ success: true, data }`. */
export function ok<const T>(data: T, headers?: Record<string, string>): Envelope<T> {
  return enveloped(data, 200, headers);
}

/** 201 `{ success: true, data }`. */
export function created<const T>(data: T, headers?: Record<string, string>): Envelope<T> {
  return enveloped(data, 201, headers);
}

function enveloped<T>(data: T, status: number, headers?: Record<string, string>): Envelope<T> {
  return typed(jsonText(`{"success":true,"data":${JSON.stringify(data ?? null)}}`, status, headers));
}

/** 200 with these bytes of JSON, an envelope. */
export function okBytes<T>(bytes: Uint8Array, headers?: Record<string, string>): Envelope<T> {
  return typed(json(bytes, 200, headers));
}

/** A `Response`, typed as its body, so that the compiler checks a handler against its route's declaration. */
export function typed<T>(response: Response): Envelope<T> {
  return response as unknown as Envelope<T>;
}

/** The `Response` behind an envelope type. */
export function responseOf(envelope: Envelope<unknown>): Response {
  return envelope as unknown as Response;
}

/** 304: the caller already has the version that the ETag names. */
export function notModified(etag: string): Envelope<never> {
  const response = jsonText(null, 304, { etag });
  response.headers.delete('content-type');
  return typed(response);
}

/** `{ success: false, error: { code, message, requestId, details? } }` with the error's status and headers. */
export function failure(error: ServiceError, requestId: string): Response {
  return jsonText(
    JSON.stringify({ success: false, error: errorBody(error, requestId) }),
    error.status,
    error.headers as Record<string, string>,
  );
}

/** The body of an error response. */
export interface Failure {
  success: false;
  error: ErrorBody & { requestId: string };
}

interface ErrorBody {
  code: ErrorCode;
  message: string;
  requestId?: string;
  details?: Problem[];
}

/** The `error` member of an error response or of a result of a bulk request. */
export function errorBody(error: ServiceError, requestId?: string): ErrorBody {
  return {
    code: error.ecode,
    message: error.message,
    ...(requestId === undefined ? {} : { requestId }),
    ...(error.details === undefined ? {} : { details: [...error.details] }),
  };
}

/** One page of a list. */
export interface Page<T> {
  items: T[];
  total: number;
  page: number;
  limit: number;
  totalPages: number;
}

export function pageOf<T>(items: T[], total: number, page: number, limit: number): Page<T> {
  return { items, total, page, limit, totalPages: Math.ceil(total / limit) };
}
