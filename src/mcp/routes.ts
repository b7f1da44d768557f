// MCP over streamable HTTP at /mcp, in both protocol revisions: 2026-07-28, which has no sessions, and 2025-11-25.
// A request without a credential may list the tools and sign in; an invalid credential gets 401. The SDK answers
// protocol errors, as JSON-RPC errors; earlier errors have the envelope of REST. Contract: decisions#mcp.
import {
  createMcpHandler,
  type McpHttpHandler,
  type McpServerFactory,
  preloadSchemas,
} from '@modelcontextprotocol/server';
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import { authenticate } from '../access/authenticate.ts';
import type { Caller } from '../access/caller.ts';
import { credentialsIn } from '../access/credential-kinds.ts';
import { requireKnownOrigin, requireListedOrigin } from '../access/origins.ts';
import { type App, perApp } from '../app.ts';
import { notFound, ServiceError, unauthorized } from '../errors.ts';
import { readJson } from '../http/body.ts';
import { guard, openMax } from '../http/guard.ts';
import { ANY_PARAMETERS, lenientParameters } from '../http/parameters.ts';
import { ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { oneOf, open } from '../http/schemas.ts';
import { giveWay } from '../runtime/event-loop.ts';
import type { JsonObject } from '../runtime/text.ts';
import { claimsOf } from './login.ts';
import {
  endMcpSession,
  logSessionIn,
  type McpSession,
  mcpSessionOf,
  openMcpSession,
  openStrangersSession,
  requireSessionOwner,
  setSessionTenant,
} from './mcp-sessions.ts';
import { mcpServer } from './server.ts';
import type { Profile, SessionMemory } from './tool.ts';
import { inNoTenant, type OpenedToolContext, openToolContext, type Routes } from './tool-context.ts';
import { ToolResults } from './tool-results.ts';

const TAG = 'MCP';
const Ended = Type.Object({ ended: Type.Literal(true) });
const Query = lenientParameters({
  profile: Type.Optional(
    oneOf(['basic', 'advanced'], {
      description: 'the available tools; `advanced` adds the webhook tools',
      error: 'must be basic or advanced',
    }),
  ),
});
const COMMON_ERRORS = ['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED'] as const;

const RpcId = Type.Union([Type.String(), Type.Integer(), Type.Null()], { examples: [1] });
const RpcError = Type.Object(
  { code: Type.Integer({ examples: [-32601] }), message: Type.String(), data: Type.Optional(Type.Unknown()) },
  { examples: [{ code: -32601, message: 'Method not found' }] },
);
const RpcFailure = Type.Object({ jsonrpc: Type.Literal('2.0'), id: RpcId, error: RpcError }, { $id: 'JsonRpcFailure' });
const RpcResponse = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    id: RpcId,
    result: Type.Optional(Type.Object({}, { additionalProperties: true, examples: [{ tools: [] }] })),
    error: Type.Optional(RpcError),
  },
  { $id: 'JsonRpcAnswer', examples: [{ jsonrpc: '2.0', id: 1, result: { tools: [] } }] },
);

const MESSAGE = route({
  id: 'sendMcpMessage',
  tag: TAG,
  summary: 'Send a message of the Model Context Protocol',
  description: `One JSON-RPC message of revision 2026-07-28 or 2025-11-25; the response is JSON or an event stream. Tools need the
same credentials as REST, in the same headers; listing them and \`tenant_login\` need none. Protocol errors are JSON-RPC
errors.`,
  access: 'open',
  query: Query,
  example: { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} },
  rawBody: open({ jsonrpc: Type.Literal('2.0'), method: Type.Optional(Type.String({ examples: ['tools/list'] })) }),
  ok: [200, ['text/event-stream']],
  rawResponses: {
    200: RpcResponse,
    400: RpcFailure,
    404: RpcFailure,
    406: RpcFailure,
    413: RpcFailure,
    415: RpcFailure,
  },
  emptyResponses: {
    202: 'A notification was accepted.',
    406: 'The client does not accept both JSON and event streams.',
  },
  errors: COMMON_ERRORS,
});

const END = route({
  id: 'endMcpSession',
  tag: TAG,
  summary: 'End an MCP session',
  description: 'Ends the session that the header `Mcp-Session-Id` names, for clients of revision 2025-11-25.',
  access: 'open',
  query: ANY_PARAMETERS,
  ok: [200, Ended],
  errors: [...COMMON_ERRORS, 'VALIDATION_ERROR', 'SERVICE_UNAVAILABLE'],
});

export function mcpRoutes(app: App, routes: Routes) {
  // Otherwise the first call would make the schemas, and all others would wait for 50 to 70 ms.
  preloadSchemas();
  const calls = createMcpHandler(serverFor(app));
  const streams = createMcpHandler(serverFor(app), { onerror: (error) => app.log.debug('MCP', { error }) });
  streamHandlersOf(app).add(streams);
  return new Elysia({ name: 'mcp' })
    .use(guard(app))
    .post(
      '/mcp',
      async ({ request, query }) => {
        const isOwnPage = await requireKnownOrigin(app, request);
        const message = await readMessage(app, request);
        if (message instanceof Response) return message;
        const session = await mcpSessionOf(app, request.headers);
        const opened = await openContext(app, request, session, routes, message);
        if (!isOwnPage && opened.context.caller !== null) requireListedOrigin(request, opened.context.caller);
        const results = new ToolResults();
        const extra: RequestAuth = { opened, profile: query.profile ?? 'basic', results };
        const authInfo = { token: '', clientId: '', scopes: [], extra: { ...extra } };
        // Making the server of a call takes a millisecond or two, and many calls may have arrived together.
        await giveWay();
        const isSubscription = message.method === 'subscriptions/listen';
        if (isSubscription && opened.context.caller === null) throw opened.failure ?? unauthorized();
        const response = await (isSubscription ? streams : calls).fetch(request, { parsedBody: message, authInfo });
        return withSession(
          app,
          request,
          message,
          opened.context.caller,
          isSubscription ? response : await results.fill(response, () => app.refusals.count('SLOW_READER')),
        );
      },
      MESSAGE,
    )
    .delete(
      '/mcp',
      async ({ request }) => {
        const isOwnPage = await requireKnownOrigin(app, request);
        const session = await mcpSessionOf(app, request.headers);
        if (session === null) throw notFound('session');
        const { context } = await openContext(app, request, session, routes, {});
        if (!isOwnPage && context.caller !== null) requireListedOrigin(request, context.caller);
        await endMcpSession(app, session);
        return ok({ ended: true });
      },
      END,
    );
}

/** The SDK's factory: a server for each authenticated request. */
function serverFor(app: App): McpServerFactory {
  return ({ authInfo }) => {
    const auth = authInfo?.extra as RequestAuth | undefined;
    if (auth === undefined) throw new Error('MCP request without authentication');
    return mcpServer(app, auth.profile, async () => auth.opened, auth.results.toCallResult);
  };
}

/** Only streams are tracked: calls end by themselves. */
const streamHandlersOf = perApp(() => new Set<McpHttpHandler>());

/** Closes the streams of subscriptions; calls in flight continue. */
export async function closeMcpStreams(app: App): Promise<void> {
  await Promise.all([...streamHandlersOf(app)].map((handler) => handler.close()));
}

/** The authentication of a request, which the SDK passes to the server's factory. */
type RequestAuth = {
  opened: OpenedToolContext;
  profile: Profile;
  results: ToolResults;
};

/** Opens the context in the tenant that the message or the session names. A 401 carries `WWW-Authenticate`. */
async function openContext(
  app: App,
  request: Request,
  session: McpSession | null,
  routes: Routes,
  message: JsonObject,
): Promise<OpenedToolContext> {
  const memory: SessionMemory = {
    selectTenant: async (slug) => {
      if (session !== null) await setSessionTenant(app, session, slug);
      return session !== null;
    },
    logIn: async (token) => {
      if (session !== null) await logSessionIn(app, session, await claimsOf(app, token));
      return session !== null;
    },
  };
  const isNamed = request.headers.has('x-tenant-id') || request.headers.has('x-tenant-slug');
  const slug = slugIn(message) ?? (isNamed ? undefined : (session?.tenantSlug ?? undefined));
  try {
    if (session !== null && session.login !== null) {
      requireSessionOwner(session, await authenticate(app, request));
      return await openToolContext(app, request, slug, routes, memory, session.login);
    }
    const opened = await openToolContext(app, request, slug, routes, memory);
    // Tools that need no credential, such as tenant_login, run in spite of a failure.
    if (session !== null) {
      const { failure, context } = opened;
      requireSessionOwner(session, failure ? await authenticate(app, inNoTenant(request)) : context.caller);
    }
    return opened;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.ecode !== 'UNAUTHORIZED') throw error;
    throw new ServiceError('UNAUTHORIZED', error.message, { headers: { 'www-authenticate': 'Bearer' } });
  }
}

/** The argument `tenantSlug` of a tool call. */
function slugIn({ method, params }: JsonObject): string | undefined {
  if (method !== 'tools/call') return undefined;
  const slug = (params as { arguments?: { tenantSlug?: unknown } } | undefined)?.arguments?.tenantSlug;
  return typeof slug === 'string' ? slug : undefined;
}

/** The message, or a JSON-RPC error for a body that is not JSON, or whose id is a number that cannot be an id. */
async function readMessage(app: App, request: Request): Promise<JsonObject | Response> {
  try {
    const { maxBodyBytes } = app.config;
    const bytesMax = credentialsIn(request.headers).length > 0 ? maxBodyBytes : openMax(maxBodyBytes);
    const message = await readJson(request, bytesMax);
    // The SDK refuses such a message too, but repeats the number as the id of its refusal.
    const isId = typeof message.id !== 'number' || Number.isSafeInteger(message.id);
    return isId ? message : rpcFailure(-32600, 'the id must be a string or an integer');
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status !== 400) throw error;
    return rpcFailure(-32700, error.message);
  }
}

/** The refusal of a message whose id is not known. */
function rpcFailure(code: number, message: string): Response {
  return Response.json({ jsonrpc: '2.0', id: null, error: { code, message } }, { status: 400 });
}

/** Opens a session for an `initialize`, a method of the 2025 revision. */
async function withSession(
  app: App,
  request: Request,
  { method }: JsonObject,
  caller: Caller | null,
  response: Response,
): Promise<Response> {
  response.headers.set('x-content-type-options', 'nosniff');
  if (method !== 'initialize' || !response.ok) return response;
  const isStranger = credentialsIn(request.headers).length === 0;
  if (caller === null && !isStranger) return response;
  const id = caller === null ? await openStrangersSession(app, request) : await openMcpSession(app, caller);
  if (id !== null) response.headers.set('mcp-session-id', id);
  return response;
}
