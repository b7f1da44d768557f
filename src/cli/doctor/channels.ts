// Checks what a proxy between here and the service may break: event streams that it buffers, WebSockets that it does not
// forward, bodies that it refuses, and pages of other origins. Times are milliseconds, sizes bytes. Nothing is written by these
// checks.
import { type CheckContext, type Finding, fault, LOOK_MS, look, ok, skipped, within } from './finding.ts';
import type { Identity } from './identity.ts';

/** A body just under the service's standard limit, and one of an import, which has no limit. */
const BODIES: readonly [number, string][] = [
  [1_000_000, 'a request'],
  [8_000_000, 'an import'],
];

export async function checkChannels(context: CheckContext, identity: Identity | null): Promise<Finding[]> {
  return [
    await eventStream(context, identity),
    await webSocket(context),
    await bodyLimit(context),
    ...(context.origin === undefined ? [] : [await pageOrigin(context, context.origin)]),
  ];
}

/** The first event should come at once: a proxy that buffers the response sends nothing for a while. */
async function eventStream({ service }: CheckContext, identity: Identity | null): Promise<Finding> {
  const slug = identity?.tenant?.slug;
  if (slug === undefined) return skipped('event-stream', 'needs a credential of a tenant');
  const events = `/api/v1/tenants/${encodeURIComponent(slug)}/events`;
  const { ticket } = await service.post<{ ticket: string }>(`${events}/tickets`);
  const cure = 'turn buffering and compression of text/event-stream off: see "Behind a proxy" in the documentation';
  const startedAt = performance.now();
  try {
    const response = await look(service, `${events}/stream?ticket=${encodeURIComponent(ticket)}`);
    if (!response.ok) {
      await response.body?.cancel();
      return fault('event-stream', `an event stream gets the status ${response.status}`, cure);
    }
    const reader = response.body?.getReader();
    const first = await reader?.read();
    await reader?.cancel();
    if (first === undefined || first.done)
      return fault('event-stream', 'an event stream ends before its first event', cure);
    return ok('event-stream', `an event stream opens in ${Math.round(performance.now() - startedAt)} ms`);
  } catch {
    return fault(
      'event-stream',
      `an event stream sends nothing for ${LOOK_MS / 1_000} s: something holds it back`,
      cure,
    );
  }
}

function webSocket({ service }: CheckContext): Promise<Finding> {
  const socket = new WebSocket(`${service.target.url.replace(/^http/, 'ws')}/ws`);
  const cure = 'let the proxy pass `Upgrade` and `Connection` on: see "Behind a proxy" in the documentation';
  return new Promise((resolve) => {
    const end = (finding: Finding): void => {
      clearTimeout(timer);
      socket.close();
      resolve(finding);
    };
    const timer = setTimeout(() => end(fault('websocket', 'a WebSocket gets no answer', cure)), LOOK_MS);
    socket.addEventListener('open', () => end(ok('websocket', 'a WebSocket opens')));
    socket.addEventListener('error', () => end(fault('websocket', 'a WebSocket is refused', cure)));
  });
}

/** The service refuses these bodies too, but only after reading them, and in its own words. */
async function bodyLimit({ service }: CheckContext): Promise<Finding> {
  for (const [size, what] of BODIES) {
    const mark = `tds-doctor-${size}`;
    const path = `/api/entities/_none/records${what === 'an import' ? '/import' : ''}`;
    const body = what === 'an import' ? `title\n${'x'.repeat(size)}\n` : JSON.stringify({ text: 'x'.repeat(size) });
    const response = await look(service, path, {
      method: 'POST',
      headers: { 'content-type': what === 'an import' ? 'text/csv' : 'application/json', 'x-request-id': mark },
      body,
      signal: within(service, 20_000),
    }).catch(() => null);
    await response?.body?.cancel();
    // The service returns the id of the request; a proxy that refuses the request does not.
    if (response !== null && response.headers.get('x-request-id') === mark) continue;
    const status = response === null ? 'the connection is cut' : `status ${response.status}`;
    const cure =
      'raise the limit of the proxy, such as client_max_body_size 0 in nginx: the service has its own limits';
    return fault('body-limit', `${what} of ${size / 1_000_000} MB does not reach the service: ${status}`, cure);
  }
  return ok('body-limit', 'large bodies reach the service');
}

async function pageOrigin({ service }: CheckContext, origin: string): Promise<Finding> {
  const headers = { origin, 'access-control-request-method': 'GET', 'access-control-request-headers': 'authorization' };
  const response = await look(service, '/api/auth/whoami', { method: 'OPTIONS', headers });
  const allowed = response.headers.get('access-control-allow-origin');
  if (allowed === origin || allowed === '*') return ok('origin', `pages of ${origin} may call the service`);
  const cure = `add it to the tenant's setting allowedOrigins, exactly as the browser sends it: scheme, host, port, no path`;
  return fault('origin', `pages of ${origin} may not call the service`, cure);
}
