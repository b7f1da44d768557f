// All routes, as one chain of plugins. `handlerOf` adds what every request has: an id, a log line, a duration,
// and a 405 for a wrong method. A route without declared access makes the start fail.
// Contract: decisions#responses, decisions#status-codes.
import { setTimeout as delay } from 'node:timers/promises';
import { Elysia } from 'elysia';
import { addCorsHeaders, preflightHeaders } from './access/cors.ts';
import { attachRequestContext, type RequestContext } from './access/request-context.ts';
import { adminKeyRoutes } from './admin/admin-key-routes.ts';
import { adminRoutes } from './admin/routes.ts';
import { usageRoutes } from './admin/usage-routes.ts';
import type { App } from './app.ts';
import { botRoutes } from './bots/routes.ts';
import { findBreaks } from './breaks.ts';
import { changesRoutes } from './changes/routes.ts';
import { consoleRoutes, isOfConsole } from './console/routes.ts';
import { rootRoutes } from './docs/root-routes.ts';
import { docsRoutes } from './docs/routes.ts';
import { entityRoutes } from './entities/routes.ts';
import { invalidField, type ServiceError } from './errors.ts';
import { countJudgedOf } from './events/dry-deliveries.ts';
import { metricsRoutes } from './health/metrics-routes.ts';
import { logRequest } from './health/request-log.ts';
import { requestMetrics } from './health/request-metrics.ts';
import { endRequestSpan, startRequestSpan } from './health/request-span.ts';
import { healthRoutes } from './health/routes.ts';
import { schemaHealthRoutes } from './health/schema-routes.ts';
import { countSentBytes } from './health/sent-bytes.ts';
import { readAsOf } from './history/as-of.ts';
import { historyRoutes } from './history/routes.ts';
import { bytesAfterResponse } from './http/body.ts';
import { asRead } from './http/body-as-read.ts';
import { compressed } from './http/compression.ts';
import { failures, isAmbiguousPath, methodNotAllowed, noSuchRoute, pathRefusals } from './http/failures.ts';
import { failure } from './http/reply.ts';
import { invitationRoutes } from './invitations/routes.ts';
import { platformApiRoutes } from './keys/platform-api-routes.ts';
import { ownerKeyRoutes, publicKeyRoutes } from './keys/routes.ts';
import { LIMITS } from './limits.ts';
import { mcpRoutes } from './mcp/routes.ts';
import { messageRoutes } from './messages/routes.ts';
import { portabilityRoutes } from './portability/routes.ts';
import { realtimeRoutes } from './realtime/routes.ts';
import { bulkRoutes } from './records/batch/bulk-routes.ts';
import { adviceRoutes } from './records/read/advice-routes.ts';
import { aggregateRoutes } from './records/read/aggregate-routes.ts';
import { recordRoutes } from './records/routes.ts';
import { transferRoutes } from './records/transfer/transfer-routes.ts';
import { ruleRoutes } from './rules/routes.ts';
import { newId } from './runtime/ids.ts';
import { SharePaces } from './runtime/pace.ts';
import { RequestPlaces, takenInOf, tooManyRequests } from './runtime/request-places.ts';
import { forClient } from './runtime/work.ts';
import { identityRoutes } from './users/identity-routes.ts';
import { userRoutes } from './users/routes.ts';
import { sessionRoutes } from './users/session-routes.ts';
import { viewRoutes } from './views/routes.ts';
import { countJudged } from './webhooks/dispatch/judged.ts';
import { webhookRoutes } from './webhooks/routes.ts';

export type Api = ReturnType<typeof createApi>;

/** All routes. Throws when one states no access or no operation id. */
export function createApi(app: App) {
  countJudgedOf.set(app, countJudged);
  let routes: Parameters<typeof requireDeclaredAccess>[0] = [];
  const api = new Elysia({ normalize: false, strictPath: true, handler: { standardHostname: false } })
    .use(failures(app))
    .use(preflight(app))
    .use(healthRoutes(app))
    .use(schemaHealthRoutes(app))
    .use(metricsRoutes(app))
    .use(platformRoutes(app))
    .use(ownerKeyRoutes(app))
    .use(platformApiRoutes(app))
    .use(publicKeyRoutes(app))
    .use(botRoutes(app))
    .use(entityRoutes(app, findBreaks))
    .use(recordRoutes(app, readAsOf))
    .use(historyRoutes(app))
    .use(bulkRoutes(app))
    .use(aggregateRoutes(app))
    .use(adviceRoutes(app))
    .use(transferRoutes(app))
    .use(ruleRoutes(app))
    .use(messageRoutes(app))
    .use(viewRoutes(app, findBreaks))
    .use(changesRoutes(app))
    .use(webhookRoutes(app))
    .use(realtimeRoutes(app))
    .use(userRoutes(app))
    .use(identityRoutes(app))
    .use(sessionRoutes(app))
    .use(invitationRoutes(app))
    .use(mcpRoutes(app, () => routes))
    .use(consoleRoutes(app))
    .use(rootRoutes(app))
    .use(docsRoutes(app, () => routes));
  requireDeclaredAccess(withoutPreflight(api.routes));
  routes = documentedRoutes(api.routes);
  return api;
}

/** What operators manage. A plugin of its own, because the types of a longer chain are too deep for the compiler. */
function platformRoutes(app: App) {
  return new Elysia({ name: 'platform' })
    .use(adminRoutes(app))
    .use(adminKeyRoutes(app))
    .use(usageRoutes(app))
    .use(portabilityRoutes(app));
}

/** The routes of the API document: neither preflights nor the console's pages. */
export function documentedRoutes<T extends { method: string; path: string }>(routes: readonly T[]): T[] {
  return withoutPreflight(routes).filter(({ path }) => !isOfConsole(path));
}

function withoutPreflight<T extends { method: string }>(routes: readonly T[]): T[] {
  return routes.filter(({ method }) => method !== 'OPTIONS');
}

/** OPTIONS on every path: 204, with CORS headers for listed origins. Needs no credential; 503 without a database. */
function preflight(app: App) {
  return new Elysia({ name: 'preflight' }).options(
    '/*',
    async ({ request }) => new Response(null, { status: 204, headers: await preflightHeaders(app, request) }),
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

/**
 * Whether the process had no room for a request without a verified credential. A client that reconnects at once after each
 * refusal would keep the process busy: 1,900 connections, refused 3,500 times a second, delayed other tenants by seconds.
 */
function isStrangersRefusal({ status, headers }: Response, { caller }: RequestContext): boolean {
  return status === 503 && caller === undefined && headers.get('connection') === 'close';
}

/** Answers a request from a client's address; with `refusal`, as the server has refused it. */
type Handler = (request: Request, address: string, refusal?: ServiceError) => Promise<Response>;

export function handlerOf(app: App, api: Api): Handler {
  const { routeOf, observe } = requestMetrics(app, api.routes);
  const refusalOfPath = pathRefusals(api);
  const places = new RequestPlaces(app.config);
  const refusals = new SharePaces(LIMITS.connection.refusals);
  const unread = new SharePaces(LIMITS.body.unread);
  app.metrics.gauge('svc_requests_in_flight', 'Requests without a response yet.', () => places.requests);
  app.metrics.gauge('svc_request_body_bytes', 'Bytes of incomplete request bodies.', () => places.bodyBytes);
  const answer = async (request: Request, context: RequestContext, refusal?: ServiceError): Promise<Response> => {
    if (refusal !== undefined) {
      app.refusals.count(refusal.ecode);
      return failure(refusal, context.requestId);
    }
    if (isAmbiguousPath(request.url) && request.method !== 'OPTIONS') return noSuchRoute(app, request);
    let response = await api.fetch(request);
    const { refusedBy } = context;
    if (refusedBy !== undefined) response = (await refusalOfPath(request, refusedBy)) ?? response;
    return (response.status === 404 ? methodNotAllowed(app, api.router, request) : undefined) ?? response;
  };
  return async (request, address, refusal) => {
    if (!URL.canParse(request.url)) return failure(invalidField('Host', 'is not a host'), newId());
    const startedAt = performance.now();
    const context = attachRequestContext(request, address, app.config.trustProxy);
    const place = places.enter(context.network, takenInOf(request));
    if (place !== undefined) context.place = place;
    const span = startRequestSpan(app, request, context);
    const response = await forClient(
      context.network,
      () => request.signal,
      context.trace,
      async () => {
        const response = await answer(request, context, place === undefined ? tooManyRequests() : refusal);
        await addCorsHeaders(app, request, context, response);
        return compressed(request, response);
      },
    ).finally(() => place?.leave());
    if (isStrangersRefusal(response, context)) await delay(refusals.take(context.network, 1));
    const further = bytesAfterResponse(request, response);
    if (further > 0 && unread.take(context.network, further) > 0) response.headers.set('connection', 'close');
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
    return countSentBytes(
      asRead(response, tenant.id, () => app.refusals.count('SLOW_READER')),
      counts,
    );
  };
}
