// Raw TCP connections for clients that no library offers: they stop reading, half-close or drop. Also builds WebSocket
// frames. Received bytes are kept as text (latin1). Times are milliseconds.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { until } from './streams.ts';

export interface RawConnection {
  socket: Socket;
  /** Everything received so far. */
  readonly text: string;
  /** The status of the answer; 0 without one. */
  readonly status: number;
  /** Whether the server has ended or broken the connection. */
  readonly hasEnded: boolean;
  received(what: string, withinMs?: number): Promise<void>;
  ended(withinMs?: number): Promise<void>;
  close(): void;
}

const WITHIN_MS = 60_000;

/** Sends the head of a request and reads until `socket.pause()`. */
export async function rawGet(
  url: string,
  path: string,
  headers: Record<string, string>,
  method = 'GET',
): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const state = { text: '', isOver: false };
  socket.setEncoding('latin1');
  socket.on('data', (text) => {
    state.text += text;
  });
  // These tests break connections on purpose.
  socket.on('error', () => socket.destroy());
  socket.on('end', () => {
    state.isOver = true;
  });
  socket.on('close', () => {
    state.isOver = true;
  });
  await once(socket, 'connect');
  const lines = Object.entries({ Host: `${hostname}:${port}`, ...headers }).map(([name, value]) => `${name}: ${value}`);
  socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  return {
    socket,
    get text() {
      return state.text;
    },
    get status() {
      return Number(/^HTTP\/1\.1 (\d+)/.exec(state.text)?.[1] ?? 0);
    },
    get hasEnded() {
      return state.isOver;
    },
    received: (what, withinMs = WITHIN_MS) =>
      until(
        () => state.text.includes(what),
        withinMs,
        () => `no ${what} in: ${state.text.slice(-500)}`,
      ),
    ended: (withinMs = WITHIN_MS) =>
      until(
        () => state.isOver,
        withinMs,
        () => `not ended: ${state.text.slice(-500)}`,
      ),
    close: () => socket.destroy(),
  };
}

/** Requests an event stream; resolves with the head of the answer, also of a refusal. */
export async function rawStream(url: string, slug: string, key: string, query = ''): Promise<RawConnection> {
  const path = `/api/v1/tenants/${slug}/events/stream${query}`;
  const stream = await rawGet(url, path, { Authorization: `Bearer ${key}`, Connection: 'close' });
  await stream.received('\r\n\r\n');
  return stream;
}

/** A WebSocket after its handshake. */
export async function rawSocket(url: string): Promise<RawConnection> {
  const upgrade = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': randomBytes(16).toString('base64'),
  };
  const socket = await rawGet(url, '/ws', upgrade);
  await socket.received('\r\n\r\n');
  return socket;
}

/** A complete client frame: opcode 1 is text, 2 is binary. */
export function frame(payload: string | Uint8Array, opcode = 1): Buffer {
  const bytes = Buffer.from(payload);
  const { length } = bytes;
  const mask = randomBytes(4);
  const size = length < 126 ? [0x80 | length] : [0x80 | 126, length >> 8, length & 0xff];
  if (length > 0xffff) throw new RangeError('frames of more than 65,535 bytes are not supported');
  return Buffer.concat([
    Buffer.from([0x80 | opcode, ...size]),
    mask,
    bytes.map((byte, i) => byte ^ (mask[i & 3] as number)),
  ]);
}

/** The code of the close frame, if it is the last frame. */
export function closeCode({ text }: RawConnection): number | null {
  const at = text.lastIndexOf('\x88');
  return at < 0 ? null : text.charCodeAt(at + 2) * 256 + text.charCodeAt(at + 3);
}
