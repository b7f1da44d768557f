// The requests of webhooks on their connections, against receivers that speak raw TCP: what is sent and to whom, and when a
// connection is reused. Receivers within the service are in webhook-delivery and hostile-receivers.
// Contract: decisions#webhook-requests.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { LIMITS } from '../src/limits.ts';
import { inTurn } from '../src/runtime/event-loop.ts';
import { Connections } from '../src/webhooks/transport/connections.ts';
import { type PostResult, post } from '../src/webhooks/transport/http-post.ts';
import { Authority } from './support/certificates.ts';

const { perSubscription, perTenant, idleMs } = LIMITS.webhook;
const OK = 'HTTP/1.1 200 OK\r\n';

const servers: Server[] = [];
const opened: Connections[] = [];
afterEach(() => {
  for (const connections of opened.splice(0)) connections.close();
  for (const server of servers.splice(0)) server.close();
});

/** A receiver of connections; `seen` is what each has sent, in order. */
async function receiver(handle: (socket: Socket, request: string, connection: number) => void) {
  const seen: string[] = [];
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    const at = seen.push('') - 1;
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk) => {
      seen[at] = `${seen[at]}${chunk}`;
      handle(socket, String(chunk), at);
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, seen, open };
}

function newConnections(): Connections {
  const connections = new Connections();
  opened.push(connections);
  return connections;
}

const SENDER = { tenantId: 'tenant', subscriptionId: 'subscription' };

interface Sending {
  sender?: typeof SENDER;
  address?: string;
  addresses?: readonly string[];
  headers?: Record<string, string>;
  path?: string;
  scheme?: 'http' | 'https';
  timeoutMs?: number;
}

function send(connections: Connections, port: number, sending: Sending = {}): Promise<PostResult> {
  const {
    sender = SENDER,
    addresses = ['127.0.0.1'],
    headers = {},
    path = '/hook',
    scheme = 'http',
    timeoutMs = 10_000,
  } = sending;
  const body = '{"a":"ä"}';
  const url = new URL(`${scheme}://receiver.example:${port}${path}`);
  const all = { 'Content-Length': String(Buffer.byteLength(body)), ...headers };
  const resolved = addresses.map((address) => ({ address, family: 4 }));
  return post(connections, sender, { url, addresses: resolved }, all, body, timeoutMs);
}

const fine = (socket: Socket): void => void socket.write(`${OK}Content-Length: 2\r\n\r\nok`);

/** Reading, as the share of `SENDER`, takes all turns for this long. */
function readOthersFor(ms: number): void {
  const until = performance.now() + ms;
  const step = (): void => {
    const end = performance.now() + 10;
    while (performance.now() < end);
    if (end < until) inTurn(SENDER.tenantId, step);
  };
  for (let at = 0; at < 20; at++) inTurn(SENDER.tenantId, step);
}

describe('a request', () => {
  test('is one POST with the host of the URL, to the checked address', async () => {
    const { port, seen } = await receiver(fine);
    const sent = await send(newConnections(), port, {
      path: '/a%20b?c=d',
      headers: { 'X-Svc-Event': 'record.created' },
    });
    expect(sent).toMatchObject({ status: 200, error: null, responseText: 'ok' });
    expect(seen).toEqual([
      `POST /a%20b?c=d HTTP/1.1\r\nHost: receiver.example:${port}\r\nContent-Length: 10\r\nX-Svc-Event: record.created\r\n\r\n{"a":"ä"}`,
    ]);
  });

  test.each(['a\r\nX-Admin: 1', 'a\nb', 'a\0b', 'ä'])('is not sent with a header that contains %p', async (value) => {
    const { port, seen } = await receiver(fine);
    const sent = await send(newConnections(), port, { headers: { traceparent: value } });
    expect(sent).toMatchObject({ status: null, error: 'connection failed' });
    expect(seen).toEqual([]);
  });

  test('goes to the next checked address when the first refuses connections', async () => {
    const { port } = await receiver(fine);
    const sent = await send(newConnections(), port, { addresses: ['127.0.0.2', '127.0.0.1'] });
    expect(sent).toMatchObject({ status: 200, error: null });
  });

  test('ends with its timeout, even while the response drips', async () => {
    const { port, open } = await receiver((socket) => {
      socket.write(`${OK}Content-Length: 9999\r\n\r\n`);
      const timer = setInterval(() => (socket.destroyed ? clearInterval(timer) : void socket.write('x')), 20);
    });
    const begun = performance.now();
    const sent = await send(newConnections(), port, { timeoutMs: 300 });
    expect(sent).toMatchObject({ status: 200, error: 'timeout' });
    expect(performance.now() - begun).toBeLessThan(3_000);
    await until(() => open.size === 0);
  });

  test('has the response that arrived in time, although it was read later', async () => {
    const { port } = await receiver((socket) => {
      fine(socket);
      readOthersFor(400);
    });
    expect(await send(newConnections(), port, { timeoutMs: 100 })).toMatchObject({ status: 200, error: null });
  });

  test('has the response that arrived before the connection broke, although it was read later', async () => {
    const { port } = await receiver((socket) => {
      socket.write(`${OK}Content-Length: 2\r\n\r\nok`, () => setTimeout(() => socket.resetAndDestroy(), 20));
      readOthersFor(400);
    });
    expect(await send(newConnections(), port)).toMatchObject({ status: 200, error: null, responseText: 'ok' });
  });
});

describe('a request over TLS', () => {
  const authority = new Authority();
  const usual = getCACertificates('default');
  beforeAll(() => setDefaultCACertificates([...usual, authority.cert]));
  afterAll(() => setDefaultCACertificates(usual));

  /** Sends to a receiver with a certificate for `name`; resolves to the result and the name that was asked for. */
  async function sendTo(name: string) {
    const asked: unknown[] = [];
    const server = createTlsServer(authority.issue({ address: name }), (socket) => {
      asked.push(socket.servername);
      socket.on('error', () => socket.destroy());
      socket.on('data', () => fine(socket));
    });
    server.on('tlsClientError', (_, socket) => socket.destroy());
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    return { sent: await send(newConnections(), port, { scheme: 'https' }), asked };
  }

  test('asks the checked address for the certificate of the name', async () => {
    const { sent, asked } = await sendTo('receiver.example');
    expect(sent).toMatchObject({ status: 200, error: null });
    expect(asked).toEqual(['receiver.example']);
  });

  test.each(['another.example', '127.0.0.1'])('is not sent to one with the certificate of %s', async (name) => {
    const { sent } = await sendTo(name);
    expect(sent).toMatchObject({ status: null, error: 'bad certificate or TLS' });
  });
});

describe('a connection', () => {
  test('is used for the next request of the same subscription only', async () => {
    const { port, seen } = await receiver(fine);
    const connections = newConnections();
    for (let i = 0; i < 3; i++) expect(await send(connections, port)).toMatchObject({ error: null, isStale: false });
    expect(seen).toHaveLength(1);
    await send(connections, port, { sender: { ...SENDER, subscriptionId: 'another' } });
    await send(connections, port, { addresses: ['127.0.0.1', '127.0.0.2'] });
    expect(seen).toHaveLength(3);
  });

  test('is not used again after unsolicited bytes', async () => {
    const split = `${OK}Content-Length: 2\r\n\r\nokHTTP/1.1 500 Injected\r\nContent-Length: 0\r\n\r\n`;
    const { port, seen, open } = await receiver((socket, _, at) =>
      at === 0 ? void socket.write(split) : fine(socket),
    );
    const connections = newConnections();
    expect(await send(connections, port)).toMatchObject({ status: 200, responseText: 'ok' });
    await until(() => open.size === 0);
    expect(await send(connections, port)).toMatchObject({ status: 200, error: null });
    expect(seen).toHaveLength(2);
  });

  test('that receives bytes while it is idle is closed', async () => {
    const { port, seen, open } = await receiver((socket) => {
      fine(socket);
      setTimeout(() => socket.write('HTTP/1.1 500 Late\r\n\r\n'), 50);
    });
    const connections = newConnections();
    await send(connections, port);
    await until(() => open.size === 0);
    expect(await send(connections, port)).toMatchObject({ status: 200 });
    expect(seen).toHaveLength(2);
  });

  test('that the receiver has closed is not used again, and its end is no attempt', async () => {
    const { port, seen, open } = await receiver((socket) => {
      fine(socket);
      setTimeout(() => socket.end(), 20);
    });
    const connections = newConnections();
    for (let i = 1; i <= 3; i++) {
      expect(await send(connections, port)).toMatchObject({ status: 200, error: null });
      await until(() => open.size === 0);
      expect(seen).toHaveLength(i);
    }
  });

  test('that breaks before a response is stale only if it was used before, and the request is not repeated', async () => {
    const { port, seen } = await receiver((socket, _, at) => {
      if (at === 0 && seen[0]?.match(/POST/g)?.length === 1) fine(socket);
      else socket.resetAndDestroy();
    });
    const connections = newConnections();
    await send(connections, port);
    expect(await send(connections, port)).toMatchObject({ status: null, error: 'connection broken', isStale: true });
    expect(seen).toHaveLength(1);
    expect(await send(connections, port)).toMatchObject({ error: 'connection broken', isStale: false });
    expect(seen).toHaveLength(2);
  });

  test('is closed when it has been idle', async () => {
    const { port, open } = await receiver(fine);
    await send(newConnections(), port);
    expect(open.size).toBe(1);
    await until(() => open.size === 0, 10 * idleMs);
  });

  test('is not kept beyond the limits of a subscription and of a tenant', async () => {
    const held: Socket[] = [];
    const { port, open } = await receiver((socket) => void held.push(socket));
    const connections = newConnections();
    const sending = Array.from({ length: perTenant + 20 }, (_, i) =>
      send(connections, port, { sender: { ...SENDER, subscriptionId: String(i % 5) } }),
    );
    await until(() => held.length === perTenant + 20);
    for (const socket of held) fine(socket);
    await Promise.all(sending);
    await until(() => open.size <= Math.min(perTenant, 5 * perSubscription));
  });
});

async function until(isTrue: () => boolean, withinMs = 10_000): Promise<void> {
  for (const end = Date.now() + withinMs; !isTrue(); await Bun.sleep(5)) {
    if (Date.now() > end) throw new Error(`not within ${withinMs} ms`);
  }
}
