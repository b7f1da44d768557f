// The route of the SSE stream; sse-stream.ts decides who may open it. HEAD is rejected, because a stream without its body
// would be an idle open connection.
// Contract: interface#sse, decisions#sse, decisions#status-codes.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import { credentialsIn } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { ServiceError } from '../errors.ts';
import { EVENT_TYPES } from '../events/event.ts';
import { guard } from '../http/guard.ts';
import { route } from '../http/route.ts';
import { open } from '../http/schemas.ts';
import { openStream } from './sse-stream.ts';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
  'x-content-type-options': 'nosniff',
};

const StreamQuery = open({
  entities: Type.Optional(Type.String({ description: 'comma-separated entity names; default: all' })),
  events: Type.Optional(
    Type.String({ description: `comma-separated event types (${EVENT_TYPES.join(', ')}); default: all` }),
  ),
  agent_id: Type.Optional(Type.String({ description: 'name or id of the bot whose messages are included' })),
});

const STREAM = route({
  id: 'streamEvents',
  tag: 'Events',
  summary: 'Stream events',
  description: `Server-Sent Events of one tenant, for its own owner and platform keys. The stream begins with \`connected\`
and a \`heartbeat\`, which repeats every few seconds. Each event has its type, a number that counts up from 1 on the
connection, and JSON data. Missed events are not replayed, with or without \`Last-Event-ID\`: after a reconnect, read
through REST. A platform key's stream shows the entities and fields of its role, and nothing of entities with a row filter.
A client that does not read gets an \`error\` event (\`BACKPRESSURE\` or \`IDLE_TIMEOUT\`) and the end of the stream.`,
  access: 'any',
  query: StreamQuery,
  ok: [200, ['text/event-stream']],
  headers: { 'X-Accel-Buffering': '`no`: proxies must not hold the stream back' },
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
