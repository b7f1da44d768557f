// Which web pages may use a credential, by the Origin header that browsers send. For a public key, only its own list decides: a
// key without a list is for programs and works everywhere. For all other credentials, the tenant's `allowedOrigins` decides:
// cors.ts lets these pages read responses, and tickets and WebSockets, which CORS does not protect, are refused here. Origins
// are compared as text: no wildcard, no `null`. MCP accepts the service's own origin and listed ones. Failures: 403.
// Contract: browsers#origins, decisions#keys, decisions#mcp.
import type { App } from '../app.ts';
import { forbidden } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { tenantByHost } from '../tenants/tenants.ts';
import type { Caller } from './caller.ts';
import { isListedAnywhere } from './listed-origins.ts';
import { authorityOf, hostOf } from './request-context.ts';

/** The message for an invalid list of origins. */
export const ORIGINS_RULE = 'must be a list of origins, such as https://app.example.com';

/** The characters of a host name; the host of a URL may contain others, such as `*`. */
const HOST_NAME = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])$/;

/** Whether a string is an origin as browsers send it: scheme, host, and the port unless it is the default. */
export function isOrigin(text: string): boolean {
  if (text.length > LIMITS.origins.lengthMax) return false;
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && HOST_NAME.test(url.hostname) && url.origin === text;
}

/** The page that sends a request; a program has no origin. */
export interface Page {
  origin: string | null;
  /** Whether the service itself serves it. */
  isOwn: boolean;
}

export function pageOf(app: App, { headers }: Request): Page {
  const origin = headers.get('origin');
  const url = origin === null ? null : URL.parse(origin);
  if (url === null) return { origin, isOwn: false };
  const own = [app.config.baseUrl, app.address].map((address) => URL.parse(address ?? '')?.origin);
  return { origin, isOwn: own.includes(url.origin) || url.host === authorityOf(headers, app.config.trustProxy) };
}

/** The origins whose pages may use the caller's credential. */
export function originsOf({ publicKey, tenant }: Pick<Caller, 'publicKey' | 'tenant'>): readonly string[] {
  return publicKey?.allowedOrigins ?? tenant?.settings.allowedOrigins ?? [];
}

/**
 * Whether a page may use a credential where CORS does not protect it. If a tenant has no list of origins, this restricts only
 * tickets.
 */
export function isPageAllowed(caller: Caller, { origin, isOwn }: Page, isByTicket: boolean): boolean {
  const origins = originsOf(caller);
  if (origin === null || origins.includes(origin)) return true;
  if (caller.publicKey !== undefined) return origins.length === 0;
  return isOwn || (!isByTicket && origins.length === 0);
}

/** 403 for a page that may not use the public key or the ticket of the request. */
export function requireAllowedOrigin(app: App, request: Request, caller: Caller): void {
  if (caller.publicKey === undefined && caller.ticket === undefined) return;
  if (isPageAllowed(caller, pageOf(app, request), caller.ticket !== undefined)) return;
  throw forbidden('this credential may not be used from this origin');
}

const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]', '::1'];

/**
 * 403 unless the request's host is the service's and its origin, if any, is the service's or a listed one: a defence against DNS
 * rebinding. A service that listens on a public address without BASE_URL accepts every host name. Resolves to true when the
 * origin is the service's own; otherwise the caller's tenant must list it.
 */
export async function requireKnownOrigin(app: App, request: Request): Promise<boolean> {
  const { baseUrl, host: boundTo, trustProxy } = app.config;
  const names = new Set([...LOOPBACK, boundTo, ...(baseUrl === null ? [] : [new URL(baseUrl).hostname])]);
  const host = hostOf(request, trustProxy);
  const acceptsAnyHost = baseUrl === null && !LOOPBACK.includes(boundTo);
  if (host !== '' && !acceptsAnyHost && !names.has(host) && (await tenantByHost(app, host)) === null) {
    throw forbidden('this host name does not belong to the service');
  }
  const origin = request.headers.get('origin');
  if (origin === null) return true;
  const page = URL.parse(origin)?.hostname;
  if (page !== undefined && (page === host || names.has(page))) return true;
  if (!isOrigin(origin) || !(await isListedAnywhere(app, origin))) throw unknownOrigin();
  return false;
}

/** 403 unless the caller's own list has the request's origin. */
export function requireListedOrigin(request: Request, caller: Caller): void {
  const origin = request.headers.get('origin');
  if (origin === null || !originsOf(caller).includes(origin)) throw unknownOrigin();
}

function unknownOrigin(): Error {
  return forbidden('requests from this origin are not allowed');
}
