// One WebSocket, opened with a ticket, with a subscription for each entity. A WebSocket cannot be read more slowly: when too
// many messages wait, it is closed, and the next one continues after the last message that was taken.
// Contract: interface#websocket, feed#resume.
import { type ConnectOptions, type RawEvent, ticketFor } from './connection.ts';
import { ApiError, ConnectionError, parsed } from './errors.ts';
import type { Transport, WebSocketLike } from './transport.ts';

interface SocketMessage {
  type: string;
  entity?: string | null;
  data?: { id?: string };
  cursor?: string;
  code?: string;
  message?: string;
}

const WAITING_MAX = 1_000;
const NORMAL_CLOSURE = 1_000;
/** The statuses that REST has for the reasons to refuse a subscription. */
const STATUSES: Readonly<Record<string, number>> = {
  invalid_message: 400,
  not_authenticated: 401,
  entity_not_found: 404,
  limit_exceeded: 429,
};

export async function* socketEvents(
  transport: Transport,
  wanted: ConnectOptions,
): AsyncGenerator<RawEvent, void, undefined> {
  const { cursors, onOpen, filters, view, transitions } = wanted;
  const token = await ticketFor(transport, wanted);
  const inbox = new Inbox(newSocket(transport), wanted);
  try {
    await inbox.opened();
    inbox.send({ type: 'auth', token });
    for (let awaited = cursors.size; ; ) {
      const message = await inbox.next();
      if (message.type === 'auth_ok') {
        for (const [entity, since] of cursors)
          inbox.send({ type: 'subscribe', entity, since, filters, view, transitions });
      } else if (message.type === 'subscribed') {
        if (--awaited === 0) onOpen();
      } else if (message.type === 'error' || message.type === 'auth_error') throw refusal(message);
      else if (message.cursor !== undefined) yield socketEvent(message, message.cursor);
    }
  } finally {
    inbox.close();
  }
}

function newSocket(transport: Transport): WebSocketLike {
  const Socket =
    transport.options.WebSocket ?? (globalThis as { WebSocket?: new (url: string) => WebSocketLike }).WebSocket;
  if (Socket === undefined)
    throw new TypeError('this runtime has no WebSocket: pass one, such as that of the package ws');
  return new Socket(transport.socketAddress('/ws'));
}

function refusal({ code = '', message = code }: SocketMessage): Error {
  if (code === 'auth_expired') return new ConnectionError(message);
  return new ApiError({ status: STATUSES[code] ?? 400, code: code.toUpperCase(), message });
}

function socketEvent({ type, entity = null, data = {} }: SocketMessage, cursor: string): RawEvent {
  const id = type.startsWith('record.') ? (data.id ?? null) : null;
  return { event: type, entity, record_id: id, data, cursor };
}

/** The waiting messages of a socket, which are taken one by one. */
class Inbox {
  readonly #messages: SocketMessage[] = [];
  readonly #pings: ReturnType<typeof setInterval>;
  #failure: Error | undefined;
  #heardAt = Date.now();
  #wake: () => void = () => undefined;

  constructor(
    private readonly socket: WebSocketLike,
    private readonly wanted: Pick<ConnectOptions, 'signal' | 'silenceMs'>,
  ) {
    socket.addEventListener('open', () => this.#wake());
    socket.addEventListener('message', ({ data }) => this.#receive(String(data)));
    socket.addEventListener('error', () => this.#fail('the WebSocket has failed'));
    socket.addEventListener('close', ({ code, reason }) => this.#fail(`closed with ${code} ${reason ?? ''}`.trim()));
    wanted.signal?.addEventListener('abort', this.#abort);
    this.#pings = setInterval(() => this.#check(), wanted.silenceMs / 3);
  }

  /** Resolves once the socket is open. */
  async opened(): Promise<void> {
    while (this.socket.readyState === CONNECTING) await this.#change();
  }

  /** The next message; messages that came before a failure are returned first. */
  async next(): Promise<SocketMessage> {
    for (;;) {
      this.wanted.signal?.throwIfAborted();
      const message = this.#messages.shift();
      if (message !== undefined) return message;
      await this.#change();
    }
  }

  send(message: object): void {
    this.socket.send(JSON.stringify(message));
  }

  close(): void {
    clearInterval(this.#pings);
    this.wanted.signal?.removeEventListener('abort', this.#abort);
    this.socket.close(NORMAL_CLOSURE);
  }

  async #change(): Promise<void> {
    this.wanted.signal?.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  #receive(text: string): void {
    this.#heardAt = Date.now();
    if (this.#failure !== undefined) return;
    const message = parsed(text);
    if (typeof message === 'object' && message !== null) this.#messages.push(message as SocketMessage);
    else this.#fail('it sent something else than an object');
    if (this.#messages.length > WAITING_MAX) this.#fail('more has come than was taken');
    else this.#wake();
  }

  #fail(reason: string): void {
    this.#failure ??= new ConnectionError(`the WebSocket was lost: ${reason}`);
    this.socket.close(NORMAL_CLOSURE);
    this.#wake();
  }

  readonly #abort = (): void => this.#wake();

  #check(): void {
    const { silenceMs } = this.wanted;
    if (Date.now() - this.#heardAt > silenceMs) this.#fail(`silent for ${silenceMs} ms`);
    else if (this.socket.readyState === OPEN) this.send({ type: 'ping' });
  }
}

const CONNECTING = 0;
const OPEN = 1;
