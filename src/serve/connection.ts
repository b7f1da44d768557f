// One WebSocket connection, the same on both runtimes: messages are handled strictly in order, a slow reader is
// closed with 1013, and `close` is called exactly once, even if the runtime reports the end twice or
// not at all. Units: bytes. Failures of a message handler are reported and close the connection with 1011.
// Contract: decisions#websocket.
import { Buffer } from 'node:buffer';
import { LIMITS } from '../limits.ts';
import { Pace } from '../runtime/pace.ts';
import type { SocketHandler, TextSocket } from './contract.ts';

/** Messages that may queue behind the current one; a client that exceeds it is not waiting for replies. */
const MAX_PENDING = 256;
/** The total size of queued messages, in frames of the maximum size. Limited because unauthenticated clients can send them too. */
const MAX_PENDING_FRAMES = 4;
/** Within one turn of the event loop no runtime can flush, so a burst may exceed the limit by this factor. */
const BURST_FACTOR = 4;
/**
 * The connection of a client that sends too many messages is closed after this time: dropping its messages costs less than letting it
 * reconnect at once.
 */
const FLOODED_CLOSE_MS = 1_000;
/** The most bytes that a UTF-16 unit of a text takes in memory. */
const BYTES_PER_UNIT = 2;
/** How long a client has to complete the closing handshake; not every runtime disconnects a client that does not complete it. */
const CLOSE_TIMEOUT_MS = 1_000;

/** What a runtime's own socket can do. */
export interface Transport {
  send(text: string): void;
  /** Runs `sends`, which sends several texts; they go out in one write, if the runtime can. */
  together?(sends: () => void): void;
  buffered(): number;
  close(code: number, reason: string): void;
  /** Drops the connection with everything that has not been sent, if the runtime can. */
  terminate?(): void;
}

/** A message that has arrived, and the function that gives back its room. */
interface Received {
  text: string;
  leave(): void;
}

export class Connection<D extends object> implements TextSocket<D> {
  #open = true;
  #finished = false;
  #isCheckPending = false;
  /** The messages to handle, including the one that is being handled; undefined when there is none. */
  #queue: Received[] | undefined;
  /** Characters of the queued messages. */
  #pendingLength = 0;
  /** The texts to send with the next `flush`. */
  #held: string[] = [];
  #closeTimer: ReturnType<typeof setTimeout> | undefined;
  /** Undefined until the first ping: most connections never send one. */
  #pings: Pace | undefined;

  constructor(
    readonly data: D,
    private readonly handler: SocketHandler<D>,
    private readonly transport: Transport,
    private readonly report: (error: unknown) => void,
  ) {}

  get buffered(): number {
    return this.#finished ? 0 : this.transport.buffered();
  }

  send(text: string): boolean {
    this.hold(text);
    return this.flush();
  }

  hold(text: string): void {
    if (this.#open) this.#held.push(text);
  }

  flush(): boolean {
    if (!this.#open) return false;
    this.#sendHeld();
    const buffered = this.transport.buffered();
    if (buffered <= this.handler.maxBufferedBytes) return true;
    if (buffered > this.handler.maxBufferedBytes * BURST_FACTOR) return this.#closeSlowReader();
    this.#checkBufferLater();
    return true;
  }

  close(code: number, reason = ''): void {
    if (this.#stop()) this.#closeTransport(code, reason);
  }

  /** From now on, nothing is received or sent; false when that was already the case. */
  #stop(): boolean {
    if (!this.#open) return false;
    this.#sendHeld();
    this.#open = false;
    this.#dropWaiting();
    return true;
  }

  #closeTransport(code: number, reason: string): void {
    this.#closeTimer = setTimeout(() => {
      this.transport.terminate?.();
      this.finish(1006);
    }, CLOSE_TIMEOUT_MS);
    this.transport.close(code, reason);
  }

  /** The runtime has opened the connection. */
  start(): void {
    try {
      this.handler.open(this);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Queues a frame from the client; anything but a string is a binary frame. */
  receive(frame: unknown): void {
    if (!this.#open) return;
    const violation = this.#violation(frame);
    if (violation !== undefined) this.close(...violation);
    else this.#take(frame as string);
  }

  /**
   * The runtime answers a ping at once, before other work gets a turn. A client that sends too many pings or pongs is therefore
   * disconnected without a closing handshake, even while its connection is being closed.
   */
  receiveControlFrame(nowMs = performance.now()): void {
    if (this.#finished) return;
    this.#pings ??= new Pace(LIMITS.socketPings);
    if (this.#pings.take(1, nowMs) === 0) return;
    this.transport.terminate?.();
    this.finish(1008);
  }

  /** The runtime has closed the connection, or the closing handshake timed out; only the first call counts. */
  finish(code: number): void {
    clearTimeout(this.#closeTimer);
    if (this.#finished) return;
    this.#open = false;
    this.#finished = true;
    this.#dropWaiting();
    try {
      this.handler.close(this, code || 1006);
    } catch (error) {
      this.report(error);
    }
  }

  #violation(frame: unknown): [code: number, reason: string] | undefined {
    if (typeof frame !== 'string') return [1003, 'text frames only'];
    return longerThan(frame, this.handler.maxFrameBytes) ? [1009, 'frame too large'] : undefined;
  }

  #isWaitingFull(text: string): boolean {
    if ((this.#queue?.length ?? 0) >= MAX_PENDING) return true;
    return this.#pendingLength + text.length > this.handler.maxFrameBytes * MAX_PENDING_FRAMES;
  }

  #closeFlooded(): void {
    this.#stop();
    this.#closeTimer = setTimeout(() => this.#closeTransport(1008, 'too many messages at once'), FLOODED_CLOSE_MS);
  }

  #take(text: string): void {
    const leave = this.#isWaitingFull(text) ? null : this.handler.hold(this, text.length * BYTES_PER_UNIT);
    if (leave === null) {
      this.#closeFlooded();
      return;
    }
    this.#pendingLength += text.length;
    if (this.#queue !== undefined) this.#queue.push({ text, leave });
    else void this.#handleAll([{ text, leave }]);
  }

  /** Handles messages one after the other: a queued message costs nothing but its place, so a flood is cheap to receive. */
  async #handleAll(queue: Received[]): Promise<void> {
    this.#queue = queue;
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      const { text, leave } = next;
      try {
        await this.handler.message(this, text);
      } catch (error) {
        this.#fail(error);
      }
      queue.shift();
      leave();
      this.#pendingLength -= text.length;
    }
    this.#queue = undefined;
  }

  #sendHeld(): void {
    const { transport } = this;
    const held = this.#held;
    if (held.length === 0) return;
    this.#held = [];
    const sends = (): void => {
      for (const text of held) transport.send(text);
    };
    if (held.length > 1 && transport.together !== undefined) transport.together(sends);
    else sends();
  }

  /** Drops all messages after the one that is being handled. */
  #dropWaiting(): void {
    for (const { leave } of this.#queue?.splice(1) ?? []) leave();
  }

  #fail(error: unknown): void {
    this.report(error);
    this.close(1011, 'internal error');
  }

  #checkBufferLater(): void {
    if (this.#isCheckPending) return;
    this.#isCheckPending = true;
    setTimeout(() => {
      this.#isCheckPending = false;
      if (this.#open && this.transport.buffered() > this.handler.maxBufferedBytes) this.#closeSlowReader();
    }, 0);
  }

  #closeSlowReader(): false {
    this.handler.onSlowReader?.();
    this.close(1013, 'reading too slowly');
    return false;
  }
}

/** The open connections of a server. Stopping closes them at once, and also connections that open later. */
export class OpenConnections<D extends object> {
  readonly #connections = new Set<Connection<D>>();
  #stopping = false;

  start(connection: Connection<D>): void {
    this.#connections.add(connection);
    connection.start();
    if (this.#stopping) this.closeAll();
  }

  finish(connection: Connection<D>, code: number): void {
    if (this.#connections.delete(connection)) connection.finish(code);
  }

  closeAll(): void {
    this.#stopping = true;
    for (const connection of this.#connections) connection.close(1001, 'the service is stopping');
  }
}

function longerThan(text: string, bytes: number): boolean {
  if (text.length > bytes) return true;
  return text.length * 3 > bytes && Buffer.byteLength(text) > bytes;
}
