// What the service asks of a runtime: answer HTTP, hold WebSockets, tell the client's address, stop
// in order. The adapters beside this file are the only code that names Bun or Deno.
// Units: bytes and seconds. The runtime's own failures go to `report` and are answered with the
// error envelope; what the application throws is its own matter before it gets here.
// Contract: decisions#answers, decisions#shutdown.

import type { SocketHandler } from '../runtime/socket.ts';

export type { SocketHandler, TextSocket } from '../runtime/socket.ts';

export interface ServeOptions<D extends object> {
  hostname: string;
  /** 0 picks a free port. */
  port: number;
  /** Ceiling of any request body, in bytes; the application's own limits are below it. */
  maxBody: number;
  /** A connection without traffic for this long is closed (at most 255; 0 is never). */
  idleSeconds: number;
  /** Lets several processes listen on one port; a second, foreign server then goes unnoticed. */
  reusePort?: boolean;
  fetch(request: Request, clientAddress: string): Response | Promise<Response>;
  /** Told of everything that escapes the application. */
  report(error: unknown): void;
  socket?: SocketHandler<D>;
}

/** A server that listens. */
export interface Running {
  readonly port: number;
  /** Another idle limit for one request's connection; over 255 is none at all. */
  idle(request: Request, seconds: number): void;
  /** Refuses new connections, closes sockets with 1001, waits for requests in flight; `force` cuts them. */
  stop(force?: boolean): Promise<void>;
}
