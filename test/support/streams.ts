// Clients of the live channels for tests: an event stream, read as it arrives, and a WebSocket with a queue of its
// messages. Every wait has a deadline in milliseconds and reports what was received instead.
import { setTimeout as delay } from 'node:timers/promises';
import type { Json } from './service.ts';

export interface StreamEvent {
  event: string;
  id: string;
  data: Json;
}

export interface EventStream {
  status: number;
  headers: Headers;
  /** Everything received so far. */
  readonly text: string;
  readonly events: readonly StreamEvent[];
  readonly hasEnded: boolean;
  /** The next event that is not a heartbeat. */
  next(withinMs?: number): Promise<StreamEvent>;
  /** Resolves when the server has ended the stream. */
  ended(withinMs?: number): Promise<void>;
  close(): void;
}

/** Far more than needed on a busy machine, and less than the time limit of a test. */
const WITHIN_MS = 60_000;

/** Opens the event stream of a tenant. `text` is the body of a refusal. */
export async function openEvents(
  url: string,
  slug: string,
  key: string,
  query = '',
  headers: Record<string, string> = {},
): Promise<EventStream> {
  const aborted = new AbortController();
  const response = await fetch(`${url}/api/v1/tenants/${slug}/events/stream${query}`, {
    headers: { ...(key === '' ? {} : { authorization: `Bearer ${key}` }), ...headers },
    signal: aborted.signal,
  });
  let text = '';
  let isOver = false;
  let taken = 0;
  const reading = (async () => {
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) text += decoder.decode(chunk as Uint8Array, { stream: true });
    } catch (error) {
      if (!aborted.signal.aborted) text += `\n\nevent: broken\nid: 0\ndata: ${JSON.stringify(String(error))}\n\n`;
    }
    isOver = true;
  })();
  if (response.status !== 200) await reading;
  const stream: EventStream = {
    status: response.status,
    headers: response.headers,
    get text() {
      return text;
    },
    get events() {
      return parse(text);
    },
    get hasEnded() {
      return isOver;
    },
    next: async (withinMs = WITHIN_MS) => {
      await until(
        () => events(text).length > taken || isOver,
        withinMs,
        () => `no event in: ${text.slice(-2_000)}`,
      );
      if (events(text).length <= taken) throw new Error(`ended after: ${text.slice(-2_000)}`);
      return events(text)[taken++] as StreamEvent;
    },
    ended: (withinMs = WITHIN_MS) =>
      until(
        () => isOver,
        withinMs,
        () => `not ended: ${text.slice(-2_000)}`,
      ),
    close: () => aborted.abort(),
  };
  return stream;
}

/** Opens the event stream and reads its `connected` event. */
export async function connectEvents(...parameters: Parameters<typeof openEvents>): Promise<EventStream> {
  const stream = await openEvents(...parameters);
  const first = await stream.next();
  if (first.event !== 'connected') throw new Error(`not connected: ${stream.text}`);
  return stream;
}

function events(text: string): StreamEvent[] {
  return parse(text).filter(({ event }) => event !== 'heartbeat');
}

function parse(text: string): StreamEvent[] {
  return text
    .slice(0, text.lastIndexOf('\n\n') + 2)
    .split('\n\n')
    .flatMap((block) => {
      const [, event, id, data] = /^event: (.*)\nid: (.*)\ndata: (.*)$/.exec(block) ?? [];
      return event === undefined ? [] : [{ event, id: id as string, data: JSON.parse(data as string) }];
    });
}

export interface TestSocket {
  readonly messages: readonly Json[];
  readonly closed: { code: number; reason: string } | null;
  send(message: unknown): void;
  /** The next message; rejects if the socket closes without one. */
  next(withinMs?: number): Promise<Json>;
  /** Sends a message and resolves to the next one received. */
  ask(message: unknown): Promise<Json>;
  /** Resolves to the close code. */
  ended(withinMs?: number): Promise<number>;
  close(): void;
  raw: WebSocket;
}

export async function openSocket(url: string, headers: Record<string, string> = {}): Promise<TestSocket> {
  // Bun's client accepts headers, unlike the standard.
  const Client = WebSocket as unknown as new (url: string, options: object) => WebSocket;
  const socket = new Client(`${url.replace(/^http/, 'ws')}/ws`, { headers });
  const messages: Json[] = [];
  let closed: TestSocket['closed'] = null;
  let taken = 0;
  socket.onmessage = ({ data }) => void messages.push(JSON.parse(String(data)));
  socket.onclose = ({ code, reason }) => {
    closed = { code, reason };
  };
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve();
    socket.onerror = () => reject(new Error('the socket could not be opened'));
  });
  const next = async (withinMs = WITHIN_MS): Promise<Json> => {
    await until(
      () => messages.length > taken || closed !== null,
      withinMs,
      () => `no message in: ${JSON.stringify(messages)}`,
    );
    if (messages.length <= taken) throw new Error(`closed with ${closed?.code} after: ${JSON.stringify(messages)}`);
    return messages[taken++];
  };
  const send = (message: unknown): void => socket.send(typeof message === 'string' ? message : JSON.stringify(message));
  return {
    messages,
    get closed() {
      return closed;
    },
    send,
    next,
    ask: (message) => {
      send(message);
      return next();
    },
    ended: async (withinMs = WITHIN_MS) => {
      await until(
        () => closed !== null,
        withinMs,
        () => `not closed: ${JSON.stringify(messages)}`,
      );
      return closed?.code ?? 0;
    },
    close: () => socket.close(),
    raw: socket,
  };
}

/** Opens a socket, authenticates and subscribes. */
export async function subscribeSocket(url: string, token: string, ...entities: string[]): Promise<TestSocket> {
  const socket = await openSocket(url);
  for (const message of [{ type: 'auth', token }, ...entities.map((entity) => ({ type: 'subscribe', entity }))]) {
    const answer = await socket.ask(message);
    if (!['auth_ok', 'subscribed'].includes(answer.type)) throw new Error(`refused: ${JSON.stringify(answer)}`);
  }
  return socket;
}

export async function until(isTrue: () => boolean, withinMs: number, say: () => string): Promise<void> {
  const endsAt = performance.now() + withinMs;
  let isLate = false;
  while (!isTrue()) {
    if (isLate) throw new Error(say());
    // One more round after the deadline: a delayed process handles what has arrived meanwhile.
    isLate = performance.now() > endsAt;
    await delay(2);
  }
}
