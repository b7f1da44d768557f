// What the service needs from a runtime: HTTP, WebSockets, the client's address, an orderly stop.
// The adapters beside this file are the only code that names Bun or Deno.
// Units: bytes and seconds. Failures of the runtime go to `report` and get the error envelope; the application handles its own failures
// before they reach the adapter.
// Contract: decisions#responses, decisions#shutdown.

import type { ServiceError } from '../errors.ts';
import type { Garbage } from '../runtime/garbage.ts';
import type { SocketHandler } from '../runtime/socket.ts';

export type { SocketHandler, TextSocket } from '../runtime/socket.ts';

export interface ServeOptions<D extends object> {
  hostname: string;
  /** 0 picks a free port. */
  port: number;
  /** The runtime's limit on the size of a request body, in bytes; the application's own limits are lower. */
  maxBody: number;
  /** A connection without traffic for this long is closed (at most 255; 0 means never). */
  idleSeconds: number;
  /** A connection is also closed when the head of its first request has not arrived after this time. */
  silentSeconds: number;
  /** Lets several processes listen on one port; another program that listens on the same port then goes unnoticed. */
  reusePort?: boolean;
  /** Answers a request. With `refusal`, the server has refused the request, whatever its route, and that is the answer. */
  fetch(request: Request, clientAddress: string, refusal?: ServiceError): Response | Promise<Response>;
  /** Receives errors that the application did not handle. */
  report(error: unknown): void;
  socket?: SocketHandler<D>;
}

/** A listening server. */
export interface Running {
  readonly port: number;
  /** Sets the idle limit of one request's connection; over 255 means none. */
  idle(request: Request, seconds: number): void;
  /**
   * Collects garbage at once and gives its memory back to the system, if the runtime can: all garbage, or only the garbage made since the
   * last collection, which takes a tenth of the time. `all-beside` leaves more garbage.
   */
  collectGarbage?(which: Garbage): void;
  /** Refuses new connections, closes WebSockets with 1001, waits for requests in flight; `force` aborts them. */
  stop(force?: boolean): Promise<void>;
}
