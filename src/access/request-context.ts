// The context of a request: its id, the client's address, response headers. The id is that of a valid
// `X-Request-Id`; TRUST_PROXY is the number of trusted proxies. Also removes secrets from logged paths.
// Contract: decisions#configuration, decisions#responses.
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { type Trace, traceOf } from '../runtime/trace.ts';
import type { Caller } from './caller.ts';

const REQUEST_ID = new RegExp(`^[A-Za-z0-9._-]{1,${LIMITS.requestId.max}}$`);

/** Characters of a logged address; behind a proxy it is text that a client may have written. */
const ADDRESS_MAX = 64;

export interface RequestContext {
  requestId: string;
  address: string;
  /** The trace that the request continues or begins; null without one. */
  trace: Trace | null;
  /** Set by authentication. */
  caller?: Caller;
  /** The operation id of the route that refused the query. */
  refusedBy?: string;
  /** Headers for the response, also when it is an error. */
  responseHeaders?: Record<string, string>;
}

const contexts = new WeakMap<Request, RequestContext>();

/** Attaches the context; called once by the serving adapter, with the peer's address. */
export function attachRequestContext(request: Request, peerAddress: string, trustedProxies: number): RequestContext {
  const given = request.headers.get('x-request-id');
  const context: RequestContext = {
    requestId: given !== null && REQUEST_ID.test(given) ? given : newId(),
    address: trustedProxies === 0 ? peerAddress : forwardedFor(request, peerAddress, trustedProxies),
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

/** What log lines say about who made the request. */
export function callerFields({ caller, address }: RequestContext) {
  const credential = caller === undefined ? null : { kind: caller.kind, id: caller.id };
  return { tenant: caller?.tenant?.slug ?? null, credential, address: address.slice(0, ADDRESS_MAX) };
}

/** Records that the response is a 400 because the route with this operation id refused the query. */
export function markQueryRefused(request: Request, operationId: string): void {
  const context = contexts.get(request);
  if (context !== undefined) context.refusedBy = operationId;
}

/** Requests that continue an authenticated one. */
const continuations = new WeakSet<Request>();

/** Lets another request continue this one: with its context, and without another authentication. */
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

/** The right-most X-Forwarded-For entry not added by a trusted proxy. */
function forwardedFor(request: Request, peerAddress: string, trustedProxies: number): string {
  const entries = (request.headers.get('x-forwarded-for') ?? '').split(',').map((entry) => entry.trim());
  const chain = [...entries.filter((entry) => entry !== ''), peerAddress];
  return chain[Math.max(0, chain.length - 1 - trustedProxies)] ?? peerAddress;
}

/** The requested host: X-Forwarded-Host behind trusted proxies, else Host; lower case, without port and final dot. */
export function hostOf(request: Request, trustedProxies: number): string {
  const forwarded = trustedProxies > 0 ? request.headers.get('x-forwarded-host') : null;
  const host = forwarded?.split(',').at(-1)?.trim() || (request.headers.get('host') ?? '');
  return host.toLowerCase().replace(/\.?(:\d+)?$/, '');
}

/** Paths that contain an invitation token, which is secret. Group 1 is the part before it. */
const TOKEN_PATH = /^((?:\/app)?\/invite\/|\/auth\/invite\/(?!accept$)|\/api\/invitations\/)[^/]+/;

/** A URL's path without secrets, for logs and audits. */
export function redactedPath(url: string): string {
  return new URL(url).pathname.replace(TOKEN_PATH, '$1[token]');
}
