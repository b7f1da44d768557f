// The context of a request: its id, the client's address, response headers. The id is taken from a valid `X-Request-Id`, or made
// here; TRUST_PROXY is the number of trusted proxies. Also removes secrets from logged paths.
// Contract: decisions#configuration, decisions#responses.
import ipaddr from 'ipaddr.js';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import type { RequestPlace } from '../runtime/request-places.ts';
import { type Trace, traceOf } from '../runtime/trace.ts';
import type { Tenant } from '../tenants/tenants.ts';
import type { Caller } from './caller.ts';

const REQUEST_ID = new RegExp(`^[A-Za-z0-9._-]{1,${LIMITS.requestId.max}}$`);

/** The most characters of an address in logs and lists. */
const ADDRESS_MAX = 64;

export interface RequestContext {
  requestId: string;
  address: string;
  /** The network by which limits count: see `networkOf`. */
  network: string;
  /** The trace that the request continues or begins; null without one. */
  trace: Trace | null;
  /** The request's place among those that are handled at once; undefined when none was free. */
  place?: RequestPlace;
  /** Set by authentication. */
  caller?: Caller;
  /** The role that a tenant admin reads as. */
  asRole?: string;
  /** The tenant that a request without a credential acts in. */
  namedTenant?: Tenant;
  /** The operation id of the route that refused the query. */
  refusedBy?: string;
  /** Headers for the response, also when it is an error. */
  responseHeaders?: Record<string, string>;
}

const contexts = new WeakMap<Request, RequestContext>();

/** Attaches the context; called once by the serving adapter, with the peer's address. */
export function attachRequestContext(request: Request, peerAddress: string, trustedProxies: number): RequestContext {
  const given = request.headers.get('x-request-id');
  const address = trustedProxies === 0 ? peerAddress : forwardedFor(request, peerAddress, trustedProxies);
  const context: RequestContext = {
    requestId: given !== null && REQUEST_ID.test(given) ? given : newId(),
    address,
    network: networkOf(address),
    trace: traceOf(request.headers),
  };
  contexts.set(request, context);
  return context;
}

/** Records who has made the request, for its log line and metrics. */
export function attachCaller(request: Request, caller: Caller): void {
  const context = contexts.get(request);
  if (context !== undefined) context.caller = caller;
}

/** The place of a request, against which its body counts; undefined for a request that did not come over the network. */
export function placeOf(request: Request): RequestPlace | undefined {
  return contexts.get(request)?.place;
}

/** The caller that made a request; undefined before its authentication. */
export function attachedCaller(request: Request): Caller | undefined {
  return contexts.get(request)?.caller;
}

/** Records that the caller, a tenant admin, reads as a role. */
export function attachRole(request: Request, asRole: string): void {
  const context = contexts.get(request);
  if (context !== undefined) context.asRole = asRole;
}

/** Records the tenant that a request without a credential acts in: its pages may read the response. */
export function attachNamedTenant(request: Request, tenant: Tenant): void {
  const context = contexts.get(request);
  if (context !== undefined) context.namedTenant = tenant;
}

/** The members of log lines that describe the caller. */
export function callerFields({ caller, asRole, address }: RequestContext) {
  const credential = caller === undefined ? null : { kind: caller.kind, id: caller.id };
  return {
    tenant: caller?.tenant?.slug ?? null,
    credential,
    ...(asRole === undefined ? {} : { asRole }),
    address: shownAddress(address),
  };
}

/** A client's address, bounded: behind a proxy it is text that a client may have written. */
export function shownAddress(address: string): string {
  return address.slice(0, ADDRESS_MAX);
}

/** Records that the response is a 400 because the route with this operation id refused the query. */
export function markQueryRefused(request: Request, operationId: string): void {
  const context = contexts.get(request);
  if (context !== undefined) context.refusedBy = operationId;
}

/** Requests that continue an authenticated one. */
const continuations = new WeakSet<Request>();

/** Lets another request continue this one, with its context and without another authentication. */
export function continueRequest(from: Request, to: Request): void {
  shareRequestContext(from, to);
  continuations.add(to);
}

/** The caller of a request that continues an authenticated one. */
export function continuedCaller(request: Request): Caller | undefined {
  return continuations.has(request) ? contexts.get(request)?.caller : undefined;
}

/** Gives another request the same context. */
export function shareRequestContext(from: Request, to: Request): void {
  const context = contexts.get(from);
  if (context !== undefined) contexts.set(to, context);
}

export function requestIdOf(request: Request): string {
  return contexts.get(request)?.requestId ?? newId();
}

/** Adds headers to the response, also when it is an error. */
export function addResponseHeaders(request: Request, headers: Record<string, string>): void {
  const context = contexts.get(request);
  if (context !== undefined) context.responseHeaders = { ...context.responseHeaders, ...headers };
}

export function clientAddressOf(request: Request): string {
  return contexts.get(request)?.address ?? '';
}

/** The client's address for limits. */
export function clientNetworkOf(request: Request): string {
  return contexts.get(request)?.network ?? '';
}

/**
 * An IPv4 address, or the /64 network of an IPv6 address: whoever has one address of such a network has all of them, so limits
 * per address would not limit. Some proxies add the client's port. Other text is kept as it is, shortened.
 */
export function networkOf(address: string): string {
  // Most addresses are plain IPv4.
  if (!address.includes(':')) return shownAddress(address);
  const [, bracketed, withPort] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(address) ?? [];
  const host = bracketed ?? withPort ?? address;
  if (!ipaddr.isValid(host)) return shownAddress(host);
  const parsed = ipaddr.process(host);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  return new ipaddr.IPv6([...parsed.parts.slice(0, 4), 0, 0, 0, 0]).toString();
}

/** The right-most X-Forwarded-For entry not added by a trusted proxy. */
function forwardedFor(request: Request, peerAddress: string, trustedProxies: number): string {
  const entries = (request.headers.get('x-forwarded-for') ?? '').split(',').map((entry) => entry.trim());
  const chain = [...entries.filter((entry) => entry !== ''), peerAddress];
  return chain[Math.max(0, chain.length - 1 - trustedProxies)] ?? peerAddress;
}

/** The requested host: X-Forwarded-Host behind trusted proxies, else Host; lower case, without port and final dot. */
export function hostOf({ headers }: Request, trustedProxies: number): string {
  return authorityOf(headers, trustedProxies).replace(/\.?(:\d+)?$/, '');
}

/** The requested host with its port, if one was named; lower case. */
export function authorityOf(headers: Headers, trustedProxies: number): string {
  const forwarded = trustedProxies > 0 ? headers.get('x-forwarded-host') : null;
  return (forwarded?.split(',').at(-1)?.trim() || (headers.get('host') ?? '')).toLowerCase();
}

/** Paths that contain an invitation token, which is secret. Group 1 is the part before it. */
const TOKEN_PATH = /^((?:\/app)?\/invite\/|\/auth\/invite\/(?!accept$)|\/api\/invitations\/)[^/]+/;

/** A URL's path without secrets, for logs and audits. */
export function redactedPath(url: string): string {
  return new URL(url).pathname.replace(TOKEN_PATH, '$1[token]');
}
