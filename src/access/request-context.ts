// What is known of a request besides its text: its id and where it came from. Ids are taken from
// `X-Request-Id` when sane. Addresses believe as many proxies as TRUST_PROXY says. What a log may tell
// of a path is settled here too. Contract: decisions#configuration, decisions#answers, decisions#status-codes.
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';

const SANE_ID = new RegExp(`^[A-Za-z0-9._-]{1,${LIMITS.requestId.max}}$`);

export interface RequestContext {
  requestId: string;
  address: string;
  /** Headers for whatever the answer becomes, an error too. */
  responseHeaders?: Record<string, string>;
}

const contexts = new WeakMap<Request, RequestContext>();

/** Notes a request's facts; called once by the serving adapter, with the peer's address. */
export function attachRequestContext(request: Request, peerAddress: string, trustedProxies: number): RequestContext {
  const given = request.headers.get('x-request-id');
  const facts: RequestContext = {
    requestId: given !== null && SANE_ID.test(given) ? given : newId(),
    address: trustedProxies === 0 ? peerAddress : forwardedFor(request, peerAddress, trustedProxies),
  };
  contexts.set(request, facts);
  return facts;
}

/** Gives another request the facts of this one: they share the id, the address and the answer's headers. */
export function shareRequestContext(from: Request, to: Request): void {
  const facts = contexts.get(from);
  if (facts !== undefined) contexts.set(to, facts);
}

export function requestIdOf(request: Request): string {
  return contexts.get(request)?.requestId ?? newId();
}

/** Headers that the request's answer is to carry, whatever it becomes. */
export function addResponseHeaders(request: Request, headers: Record<string, string>): void {
  const facts = contexts.get(request);
  if (facts !== undefined) facts.responseHeaders = { ...facts.responseHeaders, ...headers };
}

export function clientAddressOf(request: Request): string {
  return contexts.get(request)?.address ?? '';
}

/** The right-most X-Forwarded-For entry that the trusted proxies did not add themselves. */
function forwardedFor(request: Request, peerAddress: string, trustedProxies: number): string {
  const entries = (request.headers.get('x-forwarded-for') ?? '').split(',').map((entry) => entry.trim());
  const chain = [...entries.filter((entry) => entry !== ''), peerAddress];
  return chain[Math.max(0, chain.length - 1 - trustedProxies)] ?? peerAddress;
}

/** The host the client named: X-Forwarded-Host behind trusted proxies, else Host; lower case, without port. */
export function hostOf(request: Request, trustedProxies: number): string {
  const forwarded = trustedProxies > 0 ? request.headers.get('x-forwarded-host') : null;
  const host = forwarded?.split(',').at(-1)?.trim() || (request.headers.get('host') ?? '');
  return host.toLowerCase().replace(/:\d+$/, '');
}

/** A path with an invitation's token in it, which is a secret: group 1 is what may be told. */
const TOKEN_PATH = /^((?:\/app)?\/invite\/|\/auth\/invite\/(?!accept$)|\/api\/invitations\/)[^/]+/;

/** A URL's path as logs and audits may hold it. */
export function redactedPath(url: string): string {
  return new URL(url).pathname.replace(TOKEN_PATH, '$1[token]');
}
