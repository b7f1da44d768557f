// How answers look: the envelope, one JSON content type on every runtime, and the headers that all
// JSON answers carry. Nothing here decides; errors come with their status and headers.
// Contract: decisions#answers.
import type { Problem, ServiceError } from '../errors.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

/** A JSON answer from text that is already JSON; null for a status that has no body. */
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

/** 200 `{ success: true, data }`. */
export function ok(data: unknown, headers?: Record<string, string>): Response {
  return jsonText(`{"success":true,"data":${JSON.stringify(data ?? null)}}`, 200, headers);
}

/** 201 `{ success: true, data }`. */
export function created(data: unknown, headers?: Record<string, string>): Response {
  return jsonText(`{"success":true,"data":${JSON.stringify(data ?? null)}}`, 201, headers);
}

/** `{ success: false, error: { code, message, requestId, details? } }` with the error's status and headers. */
export function failure(error: ServiceError, requestId: string): Response {
  return jsonText(
    JSON.stringify({ success: false, error: errorBody(error, requestId) }),
    error.status,
    error.headers as Record<string, string>,
  );
}

interface ErrorBody {
  code: string;
  message: string;
  requestId?: string;
  details?: readonly Problem[];
}

/** The `error` member; also used for the single results of a bulk request. */
export function errorBody(error: ServiceError, requestId?: string): ErrorBody {
  return {
    code: error.ecode,
    message: error.message,
    ...(requestId === undefined ? {} : { requestId }),
    ...(error.details === undefined ? {} : { details: error.details }),
  };
}

/** The part of a list that pages. */
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
