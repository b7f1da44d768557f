// The route of the SSE stream; sse-stream.ts decides who may open it. HEAD is rejected, because a stream without its body
// would be an idle open connection.
// Contract: interface#sse, decisions#sse, decisions#status-codes.
import { Elysia } from 'elysia';
import { credentialsIn } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { ServiceError } from '../errors.ts';
import { guard } from '../http/guard.ts';
import { route } from '../http/route.ts';
import { openStream, StreamQuery } from './sse-stream.ts';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
  'x-content-type-options': 'nosniff',
};

const STREAM = route({
  id: 'streamEvents',
  tag: 'Events',
  summary: 'Stream events',
  description: `Server-Sent Events of one tenant, for its own owner and platform keys. The stream begins with \`connected\`
and a \`heartbeat\`, which repeats every few seconds. Each event has its type, a number that counts up from 1 on the
connection, and JSON data. Missed events are never replayed, with or without \`Last-Event-ID\`: after a reconnect, read
through REST. A platform key receives events of the entities and fields that its role may read, and none of entities with a row filter.
A client that does not read gets an \`error\` event (\`BACKPRESSURE\` or \`IDLE_TIMEOUT\`) and the end of the stream.`,
  access: 'any',
  query: StreamQuery,
  ok: [200, ['text/event-stream']],
  responseHeaders: { 'X-Accel-Buffering': '`no`: proxies must not buffer the stream' },
});

export function realtimeRoutes(app: App) {
  return new Elysia({ name: 'realtime' }).use(guard(app)).get(
    '/api/v1/tenants/:slug/events/stream',
    async ({ caller, params, query, request }) => {
      if (request.method !== 'GET') {
        throw new ServiceError('METHOD_NOT_ALLOWED', 'a stream is opened with GET', { headers: { allow: 'GET' } });
      }
      const [credential] = credentialsIn(request.headers);
      return new Response(await openStream(app, caller, credential, params.slug, query), { headers: HEADERS });
    },
    STREAM,
  );
}
