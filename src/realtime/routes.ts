// The routes of the live channels: the SSE stream, tickets for it, and the description of the WebSocket, whose handshakes
// websocket.ts answers. HEAD of the stream is rejected, because a stream without its body would be an idle open connection.
// Contract: interface#sse, decisions#sse, decisions#status-codes, browsers#tickets.
import { Elysia } from 'elysia';
import { credentialsIn, propertiesOf } from '../access/credential-kinds.ts';
import { pageOf } from '../access/origins.ts';
import type { App } from '../app.ts';
import { ServiceError } from '../errors.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import { guard } from '../http/guard.ts';
import { created } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { openStream } from './sse-stream.ts';
import { StreamQuery } from './stream-filter.ts';
import { NewTicket, requestTicket, TicketSchema } from './ticket-request.ts';

const SOCKET_PROTOCOL = `Record events of one tenant, as JSON text messages. The first message is \`{ "type": "auth", "token" }\`
with a platform key, an admin session token, a bot token, a public key with the scope \`channels:read\`, or a ticket, which
every credential of the tenant can get; the answer is \`auth_ok\` or \`auth_error\`. No header and no parameter takes a
credential. Then \`{ "type": "subscribe", "entity" }\`, also with \`since\`, \`filters\`, \`view\`,
\`fields\` and \`transitions\`, answered by \`subscribed\` or \`error\`, \`unsubscribe\`, and \`ping\`,
answered by \`pong\`. Events are \`{ "type": "record.created", "entity", "data" }\`, also \`record.updated\` and
\`record.deleted\`; \`data\` is the record as the credential's role sees it. An expired credential gets \`auth_expired\`, and a
new \`auth\` resumes. A request that is not a WebSocket handshake gets 404.`;

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
  'x-content-type-options': 'nosniff',
  // The address may contain a ticket, although a used one.
  'referrer-policy': 'no-referrer',
};

const EVENTS = '/api/v1/tenants/:slug/events';

const STREAM = route({
  pathExamples: { slug: 'demo' },
  mayCall: ({ kind }) => propertiesOf(kind).opensEventStream,
  id: 'streamEvents',
  tag: 'Events',
  summary: 'Stream events',
  description: `Server-Sent Events of one tenant, for its own owner and platform keys, and for everyone with a ticket, which
can be used once: after each end of a stream, get another one. The stream begins with \`connected\`
and a \`heartbeat\`, which repeats every few seconds. Each event has its type, a number that counts up from 1 on the
connection, and JSON data. Missed events are never replayed, with or without \`Last-Event-ID\`, but with \`since\`: the
stream then begins after that cursor, and each event has a member \`cursor\`. \`filters\`, \`view\` and \`transitions\` select as in
\`/api/changes\`. A platform key receives events of the entities and fields that its role may read, and none of entities with a row filter.
A client that does not read gets an \`error\` event (\`BACKPRESSURE\` or \`IDLE_TIMEOUT\`) and the end of the stream.`,
  access: 'stream',
  query: StreamQuery,
  ok: [200, ['text/event-stream']],
  responseHeaders: { 'X-Accel-Buffering': '`no`: proxies must not buffer the stream' },
});

const TICKET = route({
  id: 'createStreamTicket',
  tag: 'Events',
  summary: 'Get a ticket for a stream',
  description: `A ticket opens one event stream (\`?ticket=\`) or one WebSocket (as the token of \`auth\`) within 30 seconds. The
stream has the rights that the caller's credential has while it is open, narrowed to these entities and events. For browsers,
whose EventSource sends no headers, and for credentials that open no stream directly.`,
  access: 'ticket',
  pathExamples: { slug: 'demo' },
  mayCall: mayFollow,
  params: { slug: 'the slug of the caller’s tenant' },
  body: NewTicket,
  example: { entities: ['deals'], events: ['record.created', 'record.updated'], filters: 'stage = won' },
  isBodyOptional: true,
  ok: [201, TicketSchema],
});

const SOCKET = route({
  id: 'openWebSocket',
  tag: 'Events',
  summary: 'Open a WebSocket',
  description: SOCKET_PROTOCOL,
  access: 'open',
  ok: [101, []],
  errors: ['NOT_FOUND'],
});

export function realtimeRoutes(app: App) {
  return new Elysia({ name: 'realtime' })
    .use(guard(app))
    .get(
      `${EVENTS}/stream`,
      async ({ caller, params, query, request }) => {
        if (request.method !== 'GET') {
          throw new ServiceError('METHOD_NOT_ALLOWED', 'a stream is opened with GET', { headers: { allow: 'GET' } });
        }
        const [credential] = credentialsIn(request.headers);
        const body = await openStream(app, { caller, credential, page: pageOf(app, request) }, params.slug, query);
        return new Response(body, { headers: HEADERS });
      },
      STREAM,
    )
    .post(
      `${EVENTS}/tickets`,
      async ({ caller, params, body, request }) =>
        created(await requestTicket(app, caller, request, params.slug, body)),
      TICKET,
    )
    .get(
      '/ws',
      async () => {
        throw new ServiceError('NOT_FOUND', 'open a WebSocket here');
      },
      SOCKET,
    );
}
