// The log line of a request: its caller, its route, and its outcome. Refused requests are logged as `info`, failures as `error`,
// all others as `debug`. A line names a credential by its kind and id, never by its value, and paths are redacted.
// Contract: neighbours#who-does-what, decisions#configuration.
import { callerFields, type RequestContext, redactedPath } from '../access/request-context.ts';
import type { App } from '../app.ts';
import type { Route } from './request-metrics.ts';

/** A request with its response status. `durationMs` ends with the response headers. */
export interface FinishedRequest {
  request: Request;
  context: RequestContext;
  route: Route;
  status: number;
  durationMs: number;
}

/** How many characters of a path are logged: refused requests are logged too, and cost their sender little. */
const PATH_LOGGED = 256;

export function logRequest(app: App, { request, context, route, status, durationMs }: FinishedRequest): void {
  const level = status >= 500 ? 'error' : status >= 400 ? 'info' : 'debug';
  if (level === 'debug' && app.config.logLevel !== 'debug') return;
  app.log[level]('request', {
    requestId: context.requestId,
    ...(context.trace === null ? {} : { traceId: context.trace.traceId }),
    ...callerFields(context),
    method: request.method,
    route: route.path === '' ? null : route.path,
    path: redactedPath(request.url).slice(0, PATH_LOGGED),
    status,
    durationMs: Math.round(durationMs * 10) / 10,
  });
}
