// Which web pages may use the service. A public key lists its origins, which must equal the browser's Origin
// header: no wildcard, no credentials, no `null`. A preflight carries no key and succeeds for an origin that at
// least one key lists. A key without origins is for programs: it works everywhere, without CORS headers.
// MCP accepts only the service's own origin. Failures: 403. Contract: decisions#keys, decisions#mcp.
import { type App, perApp } from '../app.ts';
import { forbidden } from '../errors.ts';
import { Cache } from '../runtime/cache.ts';
import { jsonb, sql } from '../runtime/sql.ts';
import { tenantByHost } from '../tenants/tenants.ts';
import { addResponseHeaders, hostOf } from './request-context.ts';

const EXPOSED =
  'ETag, RateLimit, RateLimit-Policy, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id, Idempotent-Replayed';
const ALLOWED_HEADERS =
  'Authorization, Content-Type, If-None-Match, X-Anon-Key, X-Public-Key, X-Request-Id, X-Tenant-ID, X-Tenant-Slug';
const PREFLIGHT_MAX_AGE_S = 600;

/** Adds the CORS headers for the key's own origins. 403 for a request from another origin. */
export function requireAllowedOrigin(request: Request, allowedOrigins: readonly string[]): void {
  const origin = request.headers.get('origin');
  const isListed = origin !== null && allowedOrigins.includes(origin);
  addResponseHeaders(request, {
    vary: 'Origin',
    ...(isListed ? { 'access-control-allow-origin': origin, 'access-control-expose-headers': EXPOSED } : {}),
  });
  if (!isOriginAllowed(allowedOrigins, origin)) throw forbidden('this key may not be used from this origin');
}

/** Whether a key may be used by a page of this origin; null for a program, which sends none. */
export function isOriginAllowed(allowedOrigins: readonly string[], origin: string | null): boolean {
  return origin === null || allowedOrigins.length === 0 || allowedOrigins.includes(origin);
}

/** Whether a string is an origin as browsers send it: scheme, host, and the port unless it is the default. */
export function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === text;
}

/** The headers that answer a preflight request: CORS headers only for an origin that some key lists. */
export async function preflightHeaders(app: App, request: Request): Promise<Record<string, string>> {
  const vary = { vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers' };
  const origin = request.headers.get('origin');
  if (origin === null || !isOrigin(origin) || !(await isListedByAnyKey(app, origin))) return vary;
  return {
    ...vary,
    'access-control-allow-origin': origin,
    'access-control-allow-methods': 'GET',
    'access-control-allow-headers': ALLOWED_HEADERS,
    'access-control-max-age': String(PREFLIGHT_MAX_AGE_S),
  };
}

const CACHED_ORIGINS = 5_000;

/** Preflights need no credential, so the lookup is cached, for half a second. */
const cacheOf = perApp(() => new Cache<boolean>(CACHED_ORIGINS, () => false));

async function isListedByAnyKey(app: App, origin: string): Promise<boolean> {
  return cacheOf(app).get(origin, async () => {
    const row = await app.db.first(sql`
      select from platform.public_keys
      where allowed_origins @> ${jsonb([origin])} and revoked_at is null and expires_at > now()
      limit 1`);
    return row !== undefined;
  });
}

const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]', '::1'];

/**
 * 403 unless the request's host is the service's, and its origin too, if it has one: a defence against DNS rebinding.
 * A service that listens on a public address without BASE_URL accepts every host name.
 */
export async function requireOwnOrigin(app: App, request: Request): Promise<void> {
  const { baseUrl, host: boundTo, trustProxy } = app.config;
  const names = new Set([...LOOPBACK, boundTo, ...(baseUrl === null ? [] : [new URL(baseUrl).hostname])]);
  const host = hostOf(request, trustProxy);
  const acceptsAnyHost = baseUrl === null && !LOOPBACK.includes(boundTo);
  if (host !== '' && !acceptsAnyHost && !names.has(host) && (await tenantByHost(app, host)) === null) {
    throw forbidden('this host name does not belong to the service');
  }
  const origin = request.headers.get('origin');
  if (origin === null) return;
  const page = URL.parse(origin)?.hostname;
  if (page === undefined || (page !== host && !names.has(page)))
    throw forbidden('requests from this origin are not allowed');
}
