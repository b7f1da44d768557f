// A WebSocket endpoint independent of the runtime: the adapters (src/serve) implement the connections,
// src/realtime the handler. Units: bytes and seconds. When a handler throws, the adapter reports it
// and closes the connection with 1011.
// Contract: decisions#websocket.

/** One WebSocket connection, text frames only. */
export interface TextSocket<D> {
  readonly data: D;
  /** False when the socket is closed, or was just closed because the client reads too slowly (1013). */
  send(text: string): boolean;
  /**
   * Keeps a text for the next `flush`, `send` or `close`, so that several go out in one write: 20 small ones that are sent one
   * by one take 180 µs, and together 12.
   */
  hold(text: string): void;
  /** Sends what is held; false as for `send`. */
  flush(): boolean;
  /** Bytes not sent yet, without what is held. */
  readonly buffered: number;
  close(code: number, reason?: string): void;
}

/** A WebSocket endpoint. `D` is the state of a connection, created by `upgrade`. */
export interface SocketHandler<D extends object> {
  readonly path: string;
  /** A larger text frame closes the connection with 1009, a binary frame with 1003. */
  readonly maxFrameBytes: number;
  /** The connection closes with 1013 when more bytes are unsent, and still are one turn of the event loop later. */
  readonly maxBufferedBytes: number;
  /** A client that does not answer pings for this long is disconnected. */
  readonly idleSeconds: number;
  /** The state of the new connection, or a rejection. Must not acquire resources: `open` may never follow. */
  upgrade(request: Request, address: string): D | Response | Promise<D | Response>;
  open(socket: TextSocket<D>): void;
  /** Takes room for the bytes of a message until it is handled, or dropped; null when there is none, which closes with 1008. */
  hold(socket: TextSocket<D>, bytes: number): (() => void) | null;
  /** Called for one message at a time; the next waits for the promise. A rejection closes with 1011. */
  message(socket: TextSocket<D>, text: string): void | Promise<void>;
  /** Called exactly once per opened connection; no message follows. 1006 when the connection broke. */
  close(socket: TextSocket<D>, code: number): void;
  /** Called when a client that does not read is disconnected. */
  onSlowReader?(): void;
}
