// The server on Deno, and the only file that names it; the part of Deno's API in use is declared here, so that the
// project needs no second set of global types.
// Deno has no body limit (counted here), no idle limit for HTTP (`idle` does nothing) and reports a
// broken WebSocket as code 0, sometimes twice (handled in connection.ts).
// Contract: decisions#operations.
import { Connection, OpenConnections } from './connection.ts';
import type { Running, ServeOptions, SocketHandler } from './contract.ts';
import { Entrance } from './entrance.ts';
import {
  bodyTooLarge,
  errorResponse,
  internalError,
  isSocketRequest,
  listenError,
  plainAddress,
  refusedLength,
  validHandshake,
} from './request.ts';

interface DenoServer {
  readonly addr: { port: number };
  shutdown(): Promise<void>;
}
interface DenoServeOptions {
  hostname: string;
  port: number;
  reusePort: boolean;
  signal: AbortSignal;
  onListen(): void;
  onError(error: unknown): Response;
}
interface ConnectionInfo {
  remoteAddr: { hostname: string };
}
interface DenoRuntime {
  serve(
    options: DenoServeOptions,
    handler: (request: Request, info: ConnectionInfo) => Response | Promise<Response>,
  ): DenoServer;
  upgradeWebSocket(request: Request, options: { idleTimeout: number }): { socket: WebSocket; response: Response };
}

/** A `Request` cannot have these methods, and no route reads their bodies. */
const UNROUTED = new Set(['CONNECT', 'TRACE', 'TRACK']);

const runtime = (): DenoRuntime => (globalThis as unknown as { Deno: DenoRuntime }).Deno;

export function serveDeno<D extends object>(options: ServeOptions<D>): Running {
  const open = new OpenConnections<D>();
  const cut = new AbortController();
  const server = listen(options, open, cut.signal);
  let shutdown: Promise<void> | undefined;
  return {
    port: server.addr.port,
    idle: () => undefined,
    stop: async (force = false) => {
      open.closeAll();
      // During a shutdown Deno cannot abort requests: they end with the process.
      if (force && shutdown) return;
      if (force) return cut.abort();
      shutdown ??= server.shutdown();
      await shutdown;
    },
  };
}

function listen<D extends object>(options: ServeOptions<D>, open: OpenConnections<D>, signal: AbortSignal): DenoServer {
  const { hostname, port, maxBody, socket, report } = options;
  const onError = (error: unknown): Response => {
    report(error);
    return internalError();
  };
  const entrance = new Entrance();
  const handler = (request: Request, info: ConnectionInfo): Response | Promise<Response> => {
    const address = plainAddress(info.remoteAddr.hostname);
    const enter = () => {
      if (socket && isSocketRequest(request, socket.path)) return upgrade(request, address, socket, report, open);
      const refusal = refusedLength(request, maxBody);
      return options.fetch(refusal === undefined ? withBodyLimit(request, maxBody) : request, address, refusal);
    };
    const turn = entrance.enter(request, address);
    return turn === undefined ? enter() : turn.then(enter);
  };
  try {
    const reusePort = options.reusePort ?? false;
    return runtime().serve({ hostname, port, reusePort, signal, onListen: () => undefined, onError }, handler);
  } catch (error) {
    throw listenError(hostname, port, error);
  }
}

/** Counts a body of undeclared length while the application reads it. */
function withBodyLimit(request: Request, maxBody: number): Request {
  if (request.headers.has('content-length') || request.body === null || UNROUTED.has(request.method)) return request;
  let seen = 0;
  const counted = request.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        seen += chunk.byteLength;
        if (seen <= maxBody) return controller.enqueue(chunk);
        controller.error(bodyTooLarge(maxBody));
      },
    }),
  );
  // `new Request(request)` would use the signal, which Deno aborts even after a success.
  const { url, method, headers } = request;
  return new Request(url, { method, headers, body: counted, duplex: 'half' } as RequestInit);
}

async function upgrade<D extends object>(
  request: Request,
  address: string,
  handler: SocketHandler<D>,
  report: (error: unknown) => void,
  open: OpenConnections<D>,
): Promise<Response> {
  if (!validHandshake(request)) return errorResponse('VALIDATION_ERROR', 'not a valid WebSocket handshake');
  const data = await handler.upgrade(request, address);
  if (data instanceof Response) return data;
  const { socket, response } = runtime().upgradeWebSocket(request, { idleTimeout: handler.idleSeconds });
  socket.binaryType = 'arraybuffer';
  const connection = new Connection(data, handler, transportOf(socket), report);
  socket.onopen = () => open.start(connection);
  socket.onmessage = (event) => connection.receive(event.data);
  socket.onclose = (event) => open.finish(connection, event.code);
  // A broken connection is followed by onclose, which handles it.
  socket.onerror = () => undefined;
  return response;
}

function transportOf(socket: WebSocket) {
  return {
    send: (text: string) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(text);
    },
    buffered: () => socket.bufferedAmount,
    close: (code: number, reason: string) => socket.close(code, reason),
  };
}
