// The form of answers: the envelope, one JSON content type on every runtime, and the headers of all JSON
// answers. Errors bring their own status and headers.
// Contract: decisions#responses.
import type { ErrorCode, Problem, ServiceError } from '../errors.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

/** An answer from JSON text; null for a status without a body. */
export function jsonText(text: string | null, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(text, {
    status,
    headers: {
      'content-type': JSON_TYPE,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    },
  });
}

/** The body of a successful answer. */
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

/** A `Response`, typed by what it carries, so that a handler is checked against the answer that its route states. */
export function typed<T>(response: Response): Envelope<T> {
  return response as unknown as Envelope<T>;
}

/** The `Response` that a typed answer is. */
export function responseOf(answer: Envelope<unknown>): Response {
  return answer as unknown as Response;
}

/** 304: the caller already has the version that the ETag names. */
export function notModified(etag: string): Envelope<never> {
  const answer = jsonText(null, 304, { etag });
  answer.headers.delete('content-type');
  return typed(answer);
}

/** `{ success: false, error: { code, message, requestId, details? } }` with the error's status and headers. */
export function failure(error: ServiceError, requestId: string): Response {
  return jsonText(
    JSON.stringify({ success: false, error: errorBody(error, requestId) }),
    error.status,
    error.headers as Record<string, string>,
  );
}

/** The body of an error answer. */
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

/** The `error` member; the results of a bulk request have it too. */
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
