// The server on Bun, and the only file that names it.
// Bun itself answers, without the envelope: 400 without a Host, 431 over 16 KiB of headers, 413 for a chunked body
// over the limit. It measures a socket's inactivity in steps of 4 seconds.
// Contract: decisions#operations.
import process from 'node:process';
import type { Garbage } from '../runtime/garbage.ts';
import { Connection, OpenConnections, type Transport } from './connection.ts';
import type { Running, ServeOptions, SocketHandler } from './contract.ts';
import { descriptorLimit, descriptorsInUse } from './descriptors.ts';
import { Entrance } from './entrance.ts';
import {
  errorResponse,
  internalError,
  isSocketRequest,
  listenError,
  plainAddress,
  refusedLength,
  validHandshake,
} from './request.ts';

/** Bun stores idle seconds in one byte. */
const MAX_IDLE_SECONDS = 255;

/** The part of the process's descriptors that may be in use before idle connections are closed. */
const DESCRIPTORS_SHARE = 0.75;
const DESCRIPTORS_CHECK_MS = 250;

/** Not imported: Deno loads this file too. */
const collector = (process.getBuiltinModule?.('bun:jsc') ?? {}) as { edenGC?(): void; gcAndSweep?(): void };

interface SocketState<D extends object> {
  data: D;
  connection: Connection<D> | undefined;
}
type BunServer<D extends object> = Bun.Server<SocketState<D>>;

export function serveBun<D extends object>(options: ServeOptions<D>): Running {
  const open = new OpenConnections<D>();
  const server = listen(options, open);
  const watching = keepDescriptorsFree(server);
  return {
    port: server.port ?? options.port,
    idle: (request, seconds) => server.timeout(request, seconds > MAX_IDLE_SECONDS ? 0 : seconds),
    collectGarbage,
    stop: async (force = false) => {
      clearInterval(watching);
      const stopped = server.stop(force);
      open.closeAll();
      await stopped;
    },
  };
}

/**
 * `Bun.gc(true)` would also delete compiled code. `Bun.gc(false)` gives the freed memory back at once, which would otherwise happen up
 * to a second later. Called alone, it collects all garbage in another thread.
 */
function collectGarbage(which: Garbage): void {
  if (which === 'new') collector.edenGC?.();
  else if (which === 'all') collector.gcAndSweep?.();
  setImmediate(() => Bun.gc(false));
}

/**
 * While no file descriptor is free, Bun accepts no connection and uses a whole CPU. It has no limit on connections, but it can close
 * those whose client has got its response and sends nothing.
 */
function keepDescriptorsFree<D extends object>(server: BunServer<D>): ReturnType<typeof setInterval> {
  const limit = descriptorLimit() * DESCRIPTORS_SHARE;
  const check = (): void => {
    if (descriptorsInUse() >= limit) server.closeIdleConnections();
  };
  return setInterval(check, DESCRIPTORS_CHECK_MS);
}

function listen<D extends object>(options: ServeOptions<D>, open: OpenConnections<D>): BunServer<D> {
  const { hostname, port, maxBody, socket } = options;
  const settings = {
    hostname,
    port,
    reusePort: options.reusePort ?? false,
    development: false as const,
    idleTimeout: Math.min(options.silentSeconds, MAX_IDLE_SECONDS),
    // A declared length over the limit gets the envelope below; this stops bodies of undeclared length.
    maxRequestBodySize: maxBody * 4,
    error: (error: unknown) => {
      options.report(error);
      return internalError();
    },
  };
  const idleSeconds = Math.min(options.idleSeconds, MAX_IDLE_SECONDS);
  const entrance = new Entrance();
  const answer = (request: Request, server: BunServer<D>): Response | Promise<Response> => {
    server.timeout(request, idleSeconds);
    const address = plainAddress(server.requestIP(request)?.address);
    const enter = () => options.fetch(request, address, refusedLength(request, maxBody));
    const turn = entrance.enter(request, address);
    return turn === undefined ? enter() : turn.then(enter);
  };
  try {
    if (!socket) return Bun.serve({ ...settings, fetch: answer }) as unknown as BunServer<D>;
    return Bun.serve<SocketState<D>>({
      ...settings,
      fetch: (request, server) =>
        isSocketRequest(request, socket.path) ? upgrade(request, server, socket, entrance) : answer(request, server),
      websocket: websocketOf(socket, options.report, open),
    });
  } catch (error) {
    throw listenError(hostname, port, error);
  }
}

async function upgrade<D extends object>(
  request: Request,
  server: BunServer<D>,
  socket: SocketHandler<D>,
  entrance: Entrance,
): Promise<Response | undefined> {
  if (!validHandshake(request)) return errorResponse('VALIDATION_ERROR', 'not a valid WebSocket handshake');
  const address = plainAddress(server.requestIP(request)?.address);
  await entrance.enter(request, address);
  const data = await socket.upgrade(request, address);
  if (data instanceof Response) return data;
  if (server.upgrade(request, { data: { data, connection: undefined } })) return undefined;
  return errorResponse('VALIDATION_ERROR', 'the connection could not be upgraded');
}

function websocketOf<D extends object>(
  socket: SocketHandler<D>,
  report: (error: unknown) => void,
  open: OpenConnections<D>,
): Bun.WebSocketHandler<SocketState<D>> {
  return {
    maxPayloadLength: socket.maxFrameBytes,
    // Bun drops data over its own limit; ours closes the connection well before.
    backpressureLimit: socket.maxBufferedBytes * 8,
    idleTimeout: socket.idleSeconds,
    sendPings: true,
    perMessageDeflate: false,
    open: (ws) => {
      const connection = new Connection(ws.data.data, socket, new BunTransport(ws), report);
      ws.data.connection = connection;
      open.start(connection);
    },
    message: (ws, frame) => ws.data.connection?.receive(frame),
    ping: (ws) => ws.data.connection?.receiveControlFrame(),
    pong: (ws) => ws.data.connection?.receiveControlFrame(),
    close: (ws, code) => {
      if (ws.data.connection) open.finish(ws.data.connection, code);
    },
  };
}

/** A class, because closures would cost memory per connection. */
class BunTransport<D extends object> implements Transport {
  constructor(private readonly ws: Bun.ServerWebSocket<SocketState<D>>) {}

  send(text: string): void {
    this.ws.send(text);
  }

  together(sends: () => void): void {
    this.ws.cork(sends);
  }

  buffered(): number {
    return this.ws.getBufferedAmount();
  }

  close(code: number, reason: string): void {
    this.ws.close(code, reason);
  }

  terminate(): void {
    this.ws.terminate();
  }
}
