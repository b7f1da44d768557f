// Translates every thrown error into a response: the service's own by their code, validation errors with every
// problem, Postgres's data errors as 400; any other error is logged with its cause and becomes a 500 with a
// fixed message. No response reveals SQL, a stack or a table's name.
import type { TSchema } from '@sinclair/typebox';
import { Elysia, type ValidationError } from 'elysia';
import { continueRequest, requestIdOf } from '../access/request-context.ts';
import type { App } from '../app.ts';
import { conflict, invalid, invalidField, notFound, ServiceError, unavailable } from '../errors.ts';
import { isDeadlock } from '../runtime/postgres/failures.ts';
import { problemsOf } from './check.ts';
import { failure } from './reply.ts';

const NO_SUCH_ROUTE = new ServiceError('NOT_FOUND', 'no such route');
const DAMAGED = 'the schema of this tenant is damaged; operators repair it with POST /health/schema/fix';
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** The root plugin that turns thrown errors into responses; must precede every route. */
export function failures(app: App) {
  return new Elysia({ name: 'failures' }).onError({ as: 'global' }, async ({ code, error, request }) => {
    const requestId = requestIdOf(request);
    return failure(reported(app, error, { code, requestId, unexpected: 'unexpected request failure' }), requestId);
  });
}

/** The error for the response. Counts it as a refusal, and logs an unexpected error under the given name. */
export function reported(
  app: App,
  error: unknown,
  { code, requestId, unexpected }: { code?: unknown; requestId: string | undefined; unexpected: string },
): ServiceError {
  const known = knownFailure(app, error, { code, requestId });
  if (known === undefined) app.log.error(unexpected, { requestId, cause: error });
  const answer = known ?? new ServiceError('INTERNAL_ERROR', 'internal server error');
  app.refusals.count(answer.ecode);
  return answer;
}

/** The error for the caller; undefined for an unexpected one. Logs what operators must know about. */
export function knownFailure(
  app: App,
  error: unknown,
  { code, requestId }: { code?: unknown; requestId?: string | undefined } = {},
): ServiceError | undefined {
  if (isColumnMissing(error)) app.log.error('the schema of a tenant is damaged', { requestId, cause: error });
  return translate(code, error);
}

/** A tenant's schema is damaged, or is being upgraded. */
function isColumnMissing(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '42703';
}

function translate(code: unknown, error: unknown): ServiceError | undefined {
  if (error instanceof ServiceError) return error;
  const sqlState = (error as { code?: unknown } | null)?.code;
  if (typeof sqlState === 'string' && /^22[0-9A-Z]{3}$/.test(sqlState)) {
    return invalidField('request', 'contains a value that cannot be stored');
  }
  // The entity or tenant was dropped while the request ran.
  if (sqlState === '42P01' || sqlState === '3F000' || sqlState === '23503') return notFound('entity');
  if (isColumnMissing(error)) return unavailable(DAMAGED, error);
  if (isDeadlock(error)) return conflict('concurrent modification; try again');
  if (code === 'NOT_FOUND') return NO_SUCH_ROUTE;
  if (code === 'VALIDATION') return validationFailure(error as ValidationError);
  if (code === 'PARSE') return invalidField('body', 'cannot be read');
  return undefined;
}

function validationFailure({ type, validator, value }: ValidationError): ServiceError | undefined {
  if (type === 'response') return undefined;
  // A malformed path parameter cannot name an existing resource.
  if (type === 'params') return notFound('resource');
  const { schema } = validator as { schema?: TSchema };
  return invalid(problemsOf(schema ?? (validator as unknown as TSchema), value));
}

/** The framework stores paths without parameters separately. */
interface Router {
  http: { find(method: string, path: string): unknown };
  static: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** A 405 with `Allow` when the path exists for other methods. */
export function methodNotAllowed(app: App, router: Router, request: Request): Response | undefined {
  const { pathname } = new URL(request.url);
  if (isAmbiguousPath(request.url)) return undefined;
  const fixed = Object.hasOwn(router.static, pathname) ? router.static[pathname] : undefined;
  const allowed = METHODS.filter(
    (method) => fixed?.[method] !== undefined || router.http.find(method, pathname) !== null,
  );
  if (allowed.length === 0 || allowed.includes(request.method as (typeof METHODS)[number])) return undefined;
  const error = new ServiceError('METHOD_NOT_ALLOWED', `${request.method} is not allowed here`, {
    headers: { allow: allowed.join(', ') },
  });
  app.refusals.count(error.ecode);
  return failure(error, requestIdOf(request));
}

/** The 404 for a path that no route has. */
export function noSuchRoute(app: App, request: Request): Response {
  app.refusals.count(NO_SUCH_ROUTE.ecode);
  return failure(NO_SUCH_ROUTE, requestIdOf(request));
}

/**
 * Whether a URL's path has an empty segment or an encoded slash, backslash or dot. Proxies read such a path in different
 * ways, so that their rules for paths would not hold; no resource needs one. The runtime resolves plain dot segments.
 */
export function isAmbiguousPath(url: string): boolean {
  const start = url.indexOf('/', url.indexOf('//') + 2);
  const query = url.indexOf('?', start);
  return /\/\/|%(?:2f|5c|2e)/i.test(query < 0 ? url.slice(start) : url.slice(start, query));
}

/** The part of the routes that this file needs. */
interface Routes {
  routes: readonly { method: string; path: string; hooks?: unknown }[];
  fetch(request: Request): Response | Promise<Response>;
}

/**
 * Finds the 401, 403 or 404 that takes precedence over the 400 for a query: the response to a GET of the same path without the
 * query. If the path has no GET, the nearest parent is read, and only a 404 counts.
 */
export function pathRefusals({ routes, fetch }: Routes) {
  const readable = new Set(routes.flatMap(({ method, path }) => (method === 'GET' ? [path] : [])));
  const declared = new Map(routes.map((route) => [operationIdOf(route), route]));
  return async (request: Request, operationId: string): Promise<Response | undefined> => {
    const { method, path = '' } = declared.get(operationId) ?? {};
    let template = path;
    while (template !== '' && !readable.has(template)) template = template.slice(0, template.lastIndexOf('/'));
    if (template === '') return undefined;
    const { origin, pathname } = new URL(request.url);
    const parts = pathname.split('/').slice(0, template.split('/').length);
    const probe = new Request(origin + parts.join('/'), {
      headers: withoutBody(request.headers),
      signal: request.signal,
    });
    continueRequest(request, probe);
    const response = await fetch(probe);
    if (response.status === 404 || (method === 'GET' && [401, 403].includes(response.status))) return response;
    await response.body?.cancel();
    return undefined;
  };
}

function operationIdOf({ hooks }: { hooks?: unknown }): string | undefined {
  return (hooks as { detail?: { operationId?: string } } | undefined)?.detail?.operationId;
}

function withoutBody(headers: Headers): Headers {
  const copy = new Headers(headers);
  for (const name of ['content-length', 'content-type', 'transfer-encoding']) copy.delete(name);
  return copy;
}
