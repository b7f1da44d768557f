// All routes, as one chain of plugins. `handlerOf` adds what every request has: an id, a log line, a duration,
// and a 405 for a wrong method. A route without declared access makes the start fail.
// Contract: decisions#responses, decisions#status-codes.
import { Elysia } from 'elysia';
import type { Caller } from './access/caller.ts';
import { preflightHeaders } from './access/origins.ts';
import { attachRequestContext } from './access/request-context.ts';
import { adminKeyRoutes } from './admin/admin-key-routes.ts';
import { adminRoutes } from './admin/routes.ts';
import { usageRoutes } from './admin/usage-routes.ts';
import type { App } from './app.ts';
import { botRoutes } from './bots/routes.ts';
import { docsRoutes, documentOf } from './docs/routes.ts';
import type { JsonSchema } from './docs/schema.ts';
import { entityRoutes } from './entities/routes.ts';
import { invalidField } from './errors.ts';
import { metricsRoutes } from './health/metrics-routes.ts';
import { logRequest } from './health/request-log.ts';
import { requestMetrics } from './health/request-metrics.ts';
import { endRequestSpan, startRequestSpan } from './health/request-span.ts';
import { healthRoutes } from './health/routes.ts';
import { schemaHealthRoutes } from './health/schema-routes.ts';
import { countSentBytes } from './health/sent-bytes.ts';
import { failures, isAmbiguousPath, methodNotAllowed, noSuchRoute, pathRefusals } from './http/failures.ts';
import { failure } from './http/reply.ts';
import { invitationRoutes } from './invitations/routes.ts';
import { platformApiRoutes } from './keys/platform-api-routes.ts';
import { ownerKeyRoutes, publicKeyRoutes } from './keys/routes.ts';
import { type ListedRoute, mayUseRoute } from './mcp/api-view.ts';
import { mcpRoutes } from './mcp/routes.ts';
import { messageRoutes } from './messages/routes.ts';
import { realtimeRoutes } from './realtime/routes.ts';
import { bulkRoutes } from './records/batch/bulk-routes.ts';
import { aggregateRoutes } from './records/read/aggregate-routes.ts';
import { recordRoutes } from './records/routes.ts';
import { transferRoutes } from './records/transfer/transfer-routes.ts';
import { ruleRoutes } from './rules/routes.ts';
import { newId } from './runtime/ids.ts';
import { forClient } from './runtime/work.ts';
import { identityRoutes } from './users/identity-routes.ts';
import { userRoutes } from './users/routes.ts';
import { viewRoutes } from './views/routes.ts';
import { webhookRoutes } from './webhooks/routes.ts';

export type Api = ReturnType<typeof createApi>;

/** All routes. Throws when one states no access or no operation id. */
export function createApi(app: App) {
  let routes: Parameters<typeof requireDeclaredAccess>[0] = [];
  const api = new Elysia({ normalize: false, strictPath: true, handler: { standardHostname: false } })
    .use(failures(app))
    .use(preflight(app))
    .use(healthRoutes(app))
    .use(schemaHealthRoutes(app))
    .use(metricsRoutes(app))
    .use(adminRoutes(app))
    .use(adminKeyRoutes(app))
    .use(usageRoutes(app))
    .use(ownerKeyRoutes(app))
    .use(platformApiRoutes(app))
    .use(publicKeyRoutes(app))
    .use(botRoutes(app))
    .use(entityRoutes(app))
    .use(recordRoutes(app))
    .use(bulkRoutes(app))
    .use(aggregateRoutes(app))
    .use(transferRoutes(app))
    .use(ruleRoutes(app))
    .use(messageRoutes(app))
    .use(viewRoutes(app))
    .use(webhookRoutes(app))
    .use(realtimeRoutes(app))
    .use(userRoutes(app))
    .use(identityRoutes(app))
    .use(invitationRoutes(app))
    .use(mcpRoutes(app, (caller) => documentFor(app, routes, caller)))
    .use(docsRoutes(app, () => routes));
  routes = api.routes.filter(({ method }) => method !== 'OPTIONS');
  requireDeclaredAccess(routes);
  return api;
}

/** OPTIONS on every path: 204, with CORS headers for the origins of public keys. Needs no credential; 503 without a database. */
function preflight(app: App) {
  return new Elysia({ name: 'preflight' }).options(
    '/*',
    async ({ request }) => new Response(null, { status: 204, headers: await preflightHeaders(app, request) }),
  );
}

/** The API document of the routes that a caller may use. */
export function documentFor(app: App, routes: readonly ListedRoute[], caller: Caller): JsonSchema {
  return documentOf(
    app,
    routes.filter((route) => route.method !== 'OPTIONS' && mayUseRoute(caller, route)),
  );
}

/** The framework ignores a misspelt or misplaced macro, which would leave the route open. */
function requireDeclaredAccess(routes: readonly { method: string; path: string; hooks?: unknown }[]): void {
  const undeclared = routes.filter(({ hooks }) => {
    const detail = (hooks as { detail?: Record<string, unknown> } | undefined)?.detail;
    return detail?.['x-access'] === undefined || detail.operationId === undefined;
  });
  if (undeclared.length === 0) return;
  throw new Error(
    `routes without access or operation id: ${undeclared.map(({ method, path }) => `${method} ${path}`).join(', ')}`,
  );
}

/** The function that answers a request from a client's address. */
export function handlerOf(app: App, api: Api): (request: Request, address: string) => Promise<Response> {
  const { routeOf, observe } = requestMetrics(app, api.routes);
  const refusalOfPath = pathRefusals(api);
  return async (request, address) => {
    if (!URL.canParse(request.url)) return failure(invalidField('Host', 'is not a host'), newId());
    const startedAt = performance.now();
    const context = attachRequestContext(request, address, app.config.trustProxy);
    const span = startRequestSpan(app, request, context);
    let response = await forClient(
      context.address,
      () => request.signal,
      context.trace,
      async () => {
        if (isAmbiguousPath(request.url)) return noSuchRoute(app, request);
        const response = await api.fetch(request);
        const { refusedBy } = context;
        return (refusedBy === undefined ? undefined : await refusalOfPath(request, refusedBy)) ?? response;
      },
    );
    if (response.status === 404) response = methodNotAllowed(app, api.router, request) ?? response;
    response.headers.set('x-request-id', context.requestId);
    for (const name in context.responseHeaders) response.headers.set(name, context.responseHeaders[name] as string);
    const durationMs = performance.now() - startedAt;
    const { status } = response;
    const route = routeOf(request.url);
    observe(request.method, route, status, durationMs);
    logRequest(app, { request, context, route, status, durationMs });
    if (span !== null) endRequestSpan(span, { request, context, route, status, durationMs });
    const tenant = context.caller?.tenant;
    if (tenant == null) return response;
    const counts = app.counters.of(tenant.id);
    counts.requests += 1;
    return countSentBytes(response, counts);
  };
}
