// The endpoint of WebSockets: its settings for the server, and the connection of each socket. A handshake takes no parameters and no
// credential; credentials come in messages. A network that opens sockets too fast waits, since a handshake costs more than anything
// that a socket may send before `auth`.
// Failures: 400 for parameters. Contract: interface#websocket, neighbours#strict-requests, neighbours#connections.
import { setTimeout as delay } from 'node:timers/promises';
import { pageOf } from '../access/origins.ts';
import { attachRequestContext } from '../access/request-context.ts';
import type { App } from '../app.ts';
import { ServiceError } from '../errors.ts';
import { NO_PARAMETERS, queryReader } from '../http/parameters.ts';
import { failure } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import { SharePaces } from '../runtime/pace.ts';
import type { SocketHandler } from '../runtime/socket.ts';
import { realtimeOf } from './realtime.ts';
import { WebSocketConnection } from './websocket.ts';

const FRAME_BYTES_MAX = 65_536;
const BUFFERED_BYTES_MAX = 1_048_576;
const IDLE_S = 60;
const readQuery = queryReader(NO_PARAMETERS);

export function socketHandler(app: App): SocketHandler<WebSocketConnection> {
  const handshakes = new SharePaces(LIMITS.connection.openings);
  return {
    path: '/ws',
    maxFrameBytes: FRAME_BYTES_MAX,
    maxBufferedBytes: BUFFERED_BYTES_MAX,
    idleSeconds: IDLE_S,
    upgrade: async (request, peer) => {
      const { network, requestId } = attachRequestContext(request, peer, app.config.trustProxy);
      try {
        readQuery(request.url);
      } catch (cause) {
        if (!(cause instanceof ServiceError)) throw cause;
        app.refusals.count(cause.ecode);
        return failure(cause, requestId);
      }
      const waitMs = handshakes.take(network, 1);
      if (waitMs > 0) await delay(waitMs);
      return new WebSocketConnection(app, pageOf(app, request), network);
    },
    open: (socket) => socket.data.open(socket),
    hold: ({ data }, bytes) => realtimeOf(app).messages.hold(data.tenantId, data.network, bytes),
    message: (socket, text) => socket.data.message(text),
    close: (socket) => socket.data.close(),
  };
}
