// Every failure becomes one answer here: ours by their code, the framework's validation errors with
// each problem named, Postgres's data errors as 400, anything else logged with its cause and
// answered with one fixed sentence. No answer shows SQL, a stack or a table's name.
import type { TSchema } from '@sinclair/typebox';
import { Elysia, type ValidationError } from 'elysia';
import { requestIdOf } from '../access/request-context.ts';
import type { App } from '../app.ts';
import { conflict, invalid, invalidField, notFound, ServiceError } from '../errors.ts';
import { isDeadlock } from '../runtime/postgres/failures.ts';
import { problemsOf } from './check.ts';
import { failure } from './reply.ts';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** The root plugin that turns thrown errors into answers. Use it before any route. */
export function failures(app: App) {
  return new Elysia({ name: 'failures' }).onError({ as: 'global' }, async ({ code, error, request }) => {
    const requestId = requestIdOf(request);
    const known = translate(code, error);
    if (known !== undefined) return failure(known, requestId);
    app.log.error('a request failed unexpectedly', { requestId, cause: error });
    return failure(new ServiceError('INTERNAL_ERROR', 'internal server error'), requestId);
  });
}

/** The error to answer with; undefined for one that nobody expected. */
export function translate(code: unknown, error: unknown): ServiceError | undefined {
  if (error instanceof ServiceError) return error;
  const sqlState = (error as { code?: unknown } | null)?.code;
  if (typeof sqlState === 'string' && /^22[0-9A-Z]{3}$/.test(sqlState)) {
    return invalidField('request', 'contains a value that cannot be stored');
  }
  // A table or row that is gone: its entity or tenant was dropped while the request ran.
  if (sqlState === '42P01' || sqlState === '3F000' || sqlState === '23503') return notFound('entity');
  if (isDeadlock(error)) return conflict('others are changing the same; try again');
  if (code === 'NOT_FOUND') return new ServiceError('NOT_FOUND', 'no such route');
  if (code === 'VALIDATION') return validationFailure(error as ValidationError);
  if (code === 'PARSE') return invalidField('body', 'cannot be read');
  return undefined;
}

function validationFailure({ type, validator, value }: ValidationError): ServiceError | undefined {
  if (type === 'response') return undefined;
  // A malformed id in a path names nothing that exists.
  if (type === 'params') return notFound('resource');
  const { schema } = validator as { schema?: TSchema };
  return invalid(problemsOf(schema ?? (validator as unknown as TSchema), value));
}

/** The framework keeps paths without parameters apart from the others. */
interface Router {
  http: { find(method: string, path: string): unknown };
  static: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** 405 with `Allow` where the path exists for other methods; else the 404 that was to be answered. */
export function methodNotAllowed(router: Router, request: Request): Response | undefined {
  const { pathname } = new URL(request.url);
  const fixed = Object.hasOwn(router.static, pathname) ? router.static[pathname] : undefined;
  const allowed = METHODS.filter(
    (method) => fixed?.[method] !== undefined || router.http.find(method, pathname) !== null,
  );
  if (allowed.length === 0 || allowed.includes(request.method as (typeof METHODS)[number])) return undefined;
  const error = new ServiceError('METHOD_NOT_ALLOWED', `${request.method} is not allowed here`, {
    headers: { allow: allowed.join(', ') },
  });
  return failure(error, requestIdOf(request));
}
