// CORS: lets the pages of listed origins read responses of the API, errors included. Credentials are sent in headers, never
// in cookies, so `Access-Control-Allow-Credentials` is never sent. A preflight names neither tenant nor credential: it
// succeeds for an origin that is on any active list, and the request itself decides.
// Contract: browsers#origins, decisions#keys.
import type { App } from '../app.ts';
import { isListedAnywhere, rememberListed, wasListedAnywhere } from './listed-origins.ts';
import { isOrigin, originsOf } from './origins.ts';
import type { RequestContext } from './request-context.ts';

/**
 * The addresses that pages of other origins may use: the API and the streams, MCP, invitations. Doubled slashes, which joining a
 * base and a path easily produces, are included: the page must be able to read the 404.
 */
const FOR_PAGES = /^https?:\/\/[^/]+\/+(?:api|mcp|auth|agent-messages)(?:[/?#]|$)/;
const METHODS = 'GET, POST, PUT, PATCH, DELETE';
const PREFLIGHT_MAX_AGE_S = 600;
const EXPOSED = [
  'ETag',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'X-Request-Id',
  'Idempotent-Replayed',
  'Changes-Cursor',
  'Mcp-Session-Id',
  'WWW-Authenticate',
  'Allow',
  'Content-Disposition',
].join(', ');
/** The operators' headers are missing: no page of another origin has their credentials. */
const ALLOWED_HEADERS = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-Match',
  'If-None-Match',
  'Last-Event-ID',
  'Mcp-Method',
  'Mcp-Name',
  'Mcp-Protocol-Version',
  'Mcp-Session-Id',
  'Traceparent',
  'Tracestate',
  'X-API-Key',
  'X-Anon-Key',
  'X-Public-Key',
  'X-Request-Id',
  'X-Svc-As-Role',
  'X-Svc-Client',
  'X-Tenant-ID',
  'X-Tenant-Slug',
].join(', ');

/** The headers that answer a preflight request: CORS headers only for a listed origin. */
export async function preflightHeaders(app: App, request: Request): Promise<Record<string, string>> {
  const vary = { vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers' };
  const origin = request.headers.get('origin');
  if (origin === null || !isForPages(request) || !isOrigin(origin) || !(await isListedAnywhere(app, origin))) {
    return vary;
  }
  return {
    ...vary,
    'access-control-allow-origin': origin,
    'access-control-allow-methods': METHODS,
    'access-control-allow-headers': ALLOWED_HEADERS,
    'access-control-max-age': String(PREFLIGHT_MAX_AGE_S),
  };
}

/** Adds the CORS headers to the response of a request, if its origin may read it. */
export async function addCorsHeaders(
  app: App,
  request: Request,
  context: RequestContext,
  { status, headers }: Response,
): Promise<void> {
  if (request.method === 'OPTIONS' || !isForPages(request)) return;
  headers.append('vary', 'Origin');
  const origin = request.headers.get('origin');
  if (origin === null || !isOrigin(origin) || !(await mayRead(app, origin, context, status))) return;
  headers.set('access-control-allow-origin', origin);
  headers.set('access-control-expose-headers', EXPOSED);
}

/**
 * Whether the page may read the response. Where no tenant is known, any tenant's list counts, so that a page can read why its
 * request failed.
 */
async function mayRead(
  app: App,
  origin: string,
  { caller, namedTenant }: RequestContext,
  status: number,
): Promise<boolean> {
  const tenant = caller?.tenant ?? namedTenant ?? null;
  if (tenant !== null) {
    const isListed = originsOf({ ...caller, tenant }).includes(origin);
    if (isListed) rememberListed(app, origin);
    return isListed;
  }
  if (caller !== undefined && status < 400) return false;
  if (status === 503) return wasListedAnywhere(app, origin);
  try {
    return await isListedAnywhere(app, origin);
  } catch {
    // A failed lookup must not fail the response.
    return false;
  }
}

function isForPages({ url }: Request): boolean {
  return FOR_PAGES.test(url);
}
