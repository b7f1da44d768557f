// The server span of a request, with the names and attributes of OpenTelemetry's stable conventions for HTTP, and the tenant. It
// continues the trace of the request, or begins a new trace; the work of the request belongs to it.
// Contract: neighbours#who-does-what.
import { callerFields, type RequestContext, redactedPath } from '../access/request-context.ts';
import type { App } from '../app.ts';
import type { ActiveSpan } from '../runtime/tracing.ts';
import type { FinishedRequest } from './request-log.ts';

/** Starts the span; null when spans are not exported. */
export function startRequestSpan({ tracing }: App, request: Request, context: RequestContext): ActiveSpan | null {
  if (tracing === null) return null;
  const span = tracing.start('server', request.method, context.trace, {
    'http.request.method': request.method,
    'url.path': redactedPath(request.url),
    'url.scheme': new URL(request.url).protocol.slice(0, -1),
  });
  context.trace = span.trace;
  return span;
}

export function endRequestSpan(span: ActiveSpan, { request, context, route, status }: FinishedRequest): void {
  const { tenant, credential, address } = callerFields(context);
  span.end({
    name: route.path === '' ? request.method : `${request.method} ${route.path}`,
    attributes: {
      'http.response.status_code': status,
      'client.address': address,
      'svc.request.id': context.requestId,
      ...(route.path === '' ? {} : { 'http.route': route.path }),
      ...(tenant === null ? {} : { 'svc.tenant': tenant }),
      ...(credential === null ? {} : { 'svc.credential.kind': credential.kind }),
    },
    error: status >= 500 ? String(status) : undefined,
  });
}
