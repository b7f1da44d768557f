// The errors of a call: a response of the service that refuses it, or no usable response at all. A call that its caller cancels
// ends with the reason of the AbortSignal instead. Every message can be shown to a person.
// Contract: interface#errors, decisions#errors.

/** The codes of the service's errors; `INVALID_RESPONSE` for a response that is not from the service, such as a proxy's page. */
export type ErrorCode =
  | 'VALIDATION_ERROR'
  | 'BUSINESS_RULE_ERROR'
  | 'UNAUTHORIZED'
  | 'FORBIDDEN'
  | 'QUOTA_EXCEEDED'
  | 'NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'REQUEST_TIMEOUT'
  | 'CONFLICT'
  | 'GONE'
  | 'PRECONDITION_FAILED'
  | 'PAYLOAD_TOO_LARGE'
  | 'UNSUPPORTED_MEDIA_TYPE'
  | 'IDEMPOTENCY_MISMATCH'
  | 'RATE_LIMITED'
  | 'INTERNAL_ERROR'
  | 'SERVICE_UNAVAILABLE'
  | 'INVALID_RESPONSE'
  // Codes that a later service may add.
  | (string & {});

/** One problem of a request, with the path of the member at fault. */
export interface Problem {
  path: string;
  message: string;
  code?: string;
}

export interface ApiErrorInfo {
  status: number;
  code: ErrorCode;
  message: string;
  details?: readonly Problem[];
  requestId?: string | null;
  retryAfterMs?: number | null;
}

/** A response that refuses the call, or that is not from the service. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status. */
  readonly status: number;
  readonly code: ErrorCode;
  /** Each problem of the request; empty where none is named. */
  readonly details: readonly Problem[];
  /** The id under which the service logged the request. */
  readonly requestId: string | null;
  /** How long the service asks to wait before another try; null if it does not say. */
  readonly retryAfterMs: number | null;

  constructor({ status, code, message, details = [], requestId = null, retryAfterMs = null }: ApiErrorInfo) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * No response: the service cannot be reached, the connection was lost, or the time limit was exceeded. `cause` has the reason.
 */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
}

/** The error of a response that is not a success; `text` is its body. */
export function errorOf(response: Response, text: string): ApiError {
  const { status, headers } = response;
  const common = { status, requestId: headers.get('x-request-id'), retryAfterMs: retryAfterOf(headers) };
  const { error } = (parsed(text) ?? {}) as { error?: Partial<ApiErrorInfo> };
  if (typeof error?.code !== 'string') return invalidResponse(response, text);
  return new ApiError({ ...common, message: `status ${status}`, ...error, code: error.code, status });
}

/** The error of a response whose body is not what the service sends. */
export function invalidResponse({ status, statusText, headers }: Response, text: string): ApiError {
  const begin = text.replace(/\s+/g, ' ').trim().slice(0, 80);
  return new ApiError({
    status,
    code: 'INVALID_RESPONSE',
    message: `status ${status} ${statusText}, not an answer of the service: ${begin || 'no body'}`,
    requestId: headers.get('x-request-id'),
    retryAfterMs: retryAfterOf(headers),
  });
}

/** The value of JSON text; undefined for other text. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The wait in milliseconds; the header has seconds or a date. */
function retryAfterOf(headers: Headers): number | null {
  const value = headers.get('retry-after')?.trim();
  if (!value) return null;
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : null;
}
