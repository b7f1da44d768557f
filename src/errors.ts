// The service's only error class and its closed set of codes. `details` lists every invalid field of a
// request, by JSON path. Factories for the common codes.
// Contract: interface#errors, decisions#responses.
import { LIMITS } from './limits.ts';

/** Every error code, with its HTTP status. */
export const STATUS_BY_CODE = {
  VALIDATION_ERROR: 400,
  BUSINESS_RULE_ERROR: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  CONFLICT: 409,
  GONE: 410,
  PRECONDITION_FAILED: 412,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  IDEMPOTENCY_MISMATCH: 422,
  RATE_LIMITED: 429,
  QUOTA_EXCEEDED: 429,
  CLIENT_GONE: 499,
  INTERNAL_ERROR: 500,
  SERVICE_UNAVAILABLE: 503,
} as const;

export type ErrorCode = keyof typeof STATUS_BY_CODE;

/** The other status of a code that has two: waiting does not help against a quota of what is stored. */
export const SECOND_STATUS: Readonly<Partial<Record<ErrorCode, 403>>> = { QUOTA_EXCEEDED: 403 };

/** One problem of a request; `path` is a JSON path or the name of a parameter. */
export interface Problem {
  path: string;
  message: string;
  /** The code of the error, where it is not that of the response. */
  code?: ErrorCode;
}

/** An error reported to the caller. `ecode`, because the HTTP framework gives `code` a meaning of its own. */
export class ServiceError extends Error {
  readonly ecode: ErrorCode;
  readonly details: readonly Problem[] | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly status: number;

  constructor(
    ecode: ErrorCode,
    message: string,
    options: { details?: readonly Problem[]; headers?: Record<string, string>; cause?: unknown; status?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ServiceError';
    this.ecode = ecode;
    this.details = options.details;
    this.headers = options.headers ?? {};
    this.status = options.status ?? STATUS_BY_CODE[ecode];
  }
}

/** 400 with the problems in `details`, the first thousand of more; the message is that of the first. */
export function invalid(problems: readonly Problem[]): ServiceError {
  const first = problems[0];
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : '';
  const details = problems.slice(0, LIMITS.problemsMax);
  return new ServiceError('VALIDATION_ERROR', `${first?.path}: ${first?.message}${more}`, { details });
}

/** 400 for one field or parameter. */
export function invalidField(path: string, message: string): ServiceError {
  return invalid([{ path, message }]);
}

export function notFound(what: string): ServiceError {
  return new ServiceError('NOT_FOUND', `${what} not found`);
}

export function forbidden(message = 'no permission for this operation'): ServiceError {
  return new ServiceError('FORBIDDEN', message);
}

export function unauthorized(message = 'missing or invalid credential'): ServiceError {
  return new ServiceError('UNAUTHORIZED', message);
}

export function conflict(message: string, details?: readonly Problem[]): ServiceError {
  return new ServiceError('CONFLICT', message, details ? { details } : {});
}

/** 503 with `Retry-After`, when Postgres or Redis is unavailable. */
export function unavailable(message: string, cause?: unknown): ServiceError {
  return new ServiceError('SERVICE_UNAVAILABLE', message, { headers: { 'retry-after': '2' }, cause });
}

/** 499: the client closed the connection before the response, which is sent to no one; only logs and metrics show it. */
export function clientGone(): ServiceError {
  return new ServiceError('CLIENT_GONE', 'the client has gone');
}

/** 429; `retryAfterS` is rounded up to whole seconds, at least 1. */
export function rateLimited(message: string, retryAfterS: number, details?: readonly Problem[]): ServiceError {
  return new ServiceError('RATE_LIMITED', message, {
    ...(details === undefined ? {} : { details }),
    headers: retryAfter(retryAfterS),
  });
}

/** A quota of a tenant, and how much of it was used before the request. */
export interface QuotaUse {
  quota: string;
  limit: number;
  used: number;
}

/** Names the quota, its limit and its use. */
export function quotaProblem({ quota, limit, used }: QuotaUse): Problem & QuotaUse {
  return { path: quota, message: `the quota is ${limit}, of which ${used} are used`, quota, limit, used };
}

/** 403 for a quota of what is stored; 429 for a rate, with the seconds until it begins again. */
export function quotaExceeded(use: QuotaUse, retryAfterS?: number): ServiceError {
  const details = [quotaProblem(use)];
  const { quota, limit, used } = use;
  const facts = `this tenant's quota of ${limit} ${quota} is exceeded: ${used} are used`;
  if (retryAfterS === undefined) {
    const message = `${facts}; delete something or ask the operator for a higher quota`;
    return new ServiceError('QUOTA_EXCEEDED', message, { details, status: 403 });
  }
  const message = `${facts}; try again later, with less at once, or ask the operator for a higher quota`;
  return new ServiceError('QUOTA_EXCEEDED', message, { details, headers: retryAfter(retryAfterS) });
}

/** 429 for the writes of a bot in an hour, with the seconds until the next one begins. */
export function botLimitExceeded(use: QuotaUse, retryAfterS: number): ServiceError {
  const facts = `this bot's limit of ${use.limit} writes per hour is exceeded: ${use.used} are used`;
  const message = `${facts}; try again later, with less at once, or ask a tenant admin for a higher limit`;
  return new ServiceError('QUOTA_EXCEEDED', message, {
    details: [quotaProblem(use)],
    headers: retryAfter(retryAfterS),
  });
}

function retryAfter(seconds: number): Record<string, string> {
  return { 'retry-after': String(Math.max(1, Math.ceil(seconds))) };
}
