// A WebSocket endpoint as the service sees it, whatever runtime holds the connections: the adapters
// (src/serve) keep this contract, the endpoint's own room implements it. Units: bytes and seconds.
// Failures of a handler are reported by the adapter and close the connection with 1011.
// Contract: interface#websocket, decisions#websocket.

/** One WebSocket connection, text frames only. */
export interface TextSocket<D> {
  readonly data: D;
  /** False when the socket is closed or has just been closed because the client reads too slowly (1013). */
  send(text: string): boolean;
  /** Bytes that the client has not taken yet. */
  readonly buffered: number;
  close(code: number, reason?: string): void;
}

/** How a WebSocket endpoint behaves. `D` is the connection's own state, made by `upgrade`. */
export interface SocketHandler<D extends object> {
  readonly path: string;
  /** A larger text frame closes the connection with 1009; a binary one with 1003. */
  readonly maxFrameBytes: number;
  /** More than this unsent, still so one turn later, closes the connection with 1013. */
  readonly maxBufferedBytes: number;
  /** A client that answers no ping for this long is gone. */
  readonly idleSeconds: number;
  /** The state of the new connection, or a refusal. Must hold nothing that needs releasing: `open` may not follow. */
  upgrade(request: Request, address: string): D | Response | Promise<D | Response>;
  open(socket: TextSocket<D>): void;
  /** Called for one message at a time: the next waits until the promise settles. A rejection closes with 1011. */
  message(socket: TextSocket<D>, text: string): void | Promise<void>;
  /** Called exactly once per opened connection; no message follows. 1006 when the connection just broke. */
  close(socket: TextSocket<D>, code: number): void;
}
