// Hostile clients on the WebSocket with complete messages: they do not affect other connections and leak no lease. Clients
// that do not read are in hostile-readers, forged tokens in hostile-tokens. Contract: decisions#websocket.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { HeldMessages, MessagePaces, SocketMessages } from '../src/realtime/message-pace.ts';
import { socketHandler } from '../src/realtime/websocket-endpoint.ts';
import { Pace } from '../src/runtime/pace.ts';
import type { SocketHandler } from '../src/runtime/socket.ts';
import { Connection } from '../src/serve/connection.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession, botToken } from './support/credentials.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { frame, rawSocket } from './support/raw.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { openSocket, type TestSocket, until } from './support/streams.ts';

const CONNECTIONS = 3;
const SUBSCRIPTIONS = 2;
const FLOOD = 10_000;
const RECORDS = '/api/entities/articles/records';
const WITHIN_MS = 60_000;
/** A client that is still sending may see this instead of the close code. */
const BROKEN = 1006;

let service: TestService;
beforeAll(async () => {
  service = await startService({
    WS_MAX_CONNECTIONS_PER_TENANT: String(CONNECTIONS),
    WS_MAX_SUBSCRIPTIONS: String(SUBSCRIPTIONS),
  });
});
afterAll(() => service.stop());

const keep = closeAfterEach();
const connect = async (): Promise<TestSocket> => keep(await openSocket(service.url));
const newTenant = () => tenantWithEntities(service, ['articles', 'notes', 'lists'], fields('title text'));

/** A connection authenticated with each token in turn; retries, because a closed connection's lease takes a moment to end. */
async function authenticated(...tokens: string[]): Promise<TestSocket> {
  for (;;) {
    const socket = await connect();
    for (const token of tokens) socket.send({ type: 'auth', token });
    await until(
      () => socket.closed !== null || socket.messages.length === tokens.length,
      WITHIN_MS,
      () => 'neither accepted nor rejected',
    );
    if (socket.messages.every(({ code }) => code !== 'limit_exceeded')) {
      for (const _ of tokens) expect(await socket.next()).toEqual({ type: 'auth_ok' });
      return socket;
    }
  }
}

async function subscribed(socket: TestSocket, ...entities: string[]): Promise<TestSocket> {
  for (const entity of entities) expect((await socket.ask({ type: 'subscribe', entity })).type).toBe('subscribed');
  return socket;
}

const subscriber = async (tenant: TestTenant): Promise<TestSocket> =>
  subscribed(await authenticated(await adminSession(service, tenant)), 'articles');

/** Expects each socket to receive the next change, and nothing before it. */
async function expectDelivery(tenant: TestTenant, title: string, ...sockets: TestSocket[]): Promise<void> {
  expect((await tenant.post(RECORDS, { title })).status).toBe(201);
  for (const socket of sockets) expect((await socket.next()).data?.title).toBe(title);
}

/** Expects that all the tenant's connections can be opened, after a moment. */
async function expectAllLeasesFree(tenant: TestTenant): Promise<void> {
  const token = await adminSession(service, tenant);
  const opened: TestSocket[] = [];
  while (opened.length < CONNECTIONS) opened.push(await authenticated(token));
  for (const socket of opened) socket.close();
}

describe('messages', () => {
  const deep = '['.repeat(30_000) + ']'.repeat(30_000);
  test.each<[string, string, Json]>([
    ['nested 30,000 deep', deep, { code: 'invalid_message' }],
    ['nested deep in a member', `{"type":"ping","x":${deep}}`, { type: 'pong' }],
    ['of the maximum frame size', `{"type":"${'x'.repeat(65_500)}"}`, { code: 'invalid_message' }],
    ['with a name of that size', `{"type":"subscribe","entity":"${'x'.repeat(65_000)}"}`, { code: 'entity_not_found' }],
    ['with two types, of which the last counts', '{"type":"ping","type":"subscribe"}', { code: 'invalid_message' }],
    ['with a type in the prototype', '{"__proto__":{"type":"ping"}}', { code: 'invalid_message' }],
    ['with a list as type', '{"type":["ping"]}', { code: 'invalid_message' }],
    ['with an object as name', '{"type":"subscribe","entity":{"x":1}}', { code: 'invalid_message' }],
    ['for the name of the prototype', '{"type":"subscribe","entity":"__proto__"}', { code: 'entity_not_found' }],
    ['for a wildcard', '{"type":"subscribe","entity":"*"}', { code: 'entity_not_found' }],
    ['for a pattern', '{"type":"subscribe","entity":"art%"}', { code: 'entity_not_found' }],
    ['with NUL', '{"type":"subscribe","entity":"articles\\u0000"}', { code: 'entity_not_found' }],
    ['with half a surrogate pair', '{"type":"subscribe","entity":"\\ud800"}', { code: 'entity_not_found' }],
    ['with SQL', '{"type":"subscribe","entity":"articles\' or \'1\'=\'1"}', { code: 'entity_not_found' }],
    ['that are empty', '', { code: 'invalid_message' }],
    ['with half an object', '{"type":', { code: 'invalid_message' }],
    ['with a token that is an object', '{"type":"auth","token":{}}', { code: 'invalid_message' }],
  ])('%s are answered, and the connection stays open', async (_, text, answer) => {
    const tenant = await newTenant();
    const socket = await subscriber(tenant);
    expect(await socket.ask(text)).toMatchObject(answer);
    expect(await socket.ask({ type: 'ping' })).toEqual({ type: 'pong' });
    await expectDelivery(tenant, 'delivered', socket);
  });

  test('after one that closes the connection are ignored', async () => {
    const tenant = await newTenant();
    const token = await adminSession(service, tenant);
    const socket = await connect();
    socket.raw.send(new Uint8Array([1, 2, 3]));
    socket.send({ type: 'auth', token });
    socket.send({ type: 'subscribe', entity: 'articles' });
    expect([1003, BROKEN]).toContain(await socket.ended());
    expect(socket.messages).toEqual([]);
    await expectAllLeasesFree(tenant);
  });
});

describe('floods', () => {
  test('of 10,000 subscribes count up to the limit, the others are rejected, and an event arrives once', async () => {
    const tenant = await newTenant();
    const socket = await authenticated(await adminSession(service, tenant));
    const names = ['articles', 'notes', 'lists'];
    const counts = new Map<string, number>();
    for (let sent = 0; sent < FLOOD; sent += 100) {
      for (let i = 0; i < 100; i++) socket.send({ type: 'subscribe', entity: names[(sent + i) % names.length] });
      for (let i = 0; i < 100; i++) {
        const { type, entity, code } = await socket.next(WITHIN_MS);
        const answer = `${type} ${entity ?? code}`;
        counts.set(answer, (counts.get(answer) ?? 0) + 1);
      }
    }
    expect([...counts.keys()].sort()).toEqual(['error limit_exceeded', 'subscribed articles', 'subscribed notes']);
    await expectDelivery(tenant, 'delivered', socket);
    expect(await socket.ask({ type: 'ping' })).toEqual({ type: 'pong' });
  });

  test.each<[string, (token: string) => object]>([
    ['pings', () => ({ type: 'ping' })],
    ['subscribes', () => ({ type: 'subscribe', entity: 'articles' })],
    ['auths with a valid token', (token) => ({ type: 'auth', token })],
    ['auths with a forged token', () => ({ type: 'auth', token: `svc_pkey_${crypto.randomUUID()}` })],
  ])('of 10,000 %s are all answered, or the connection is closed with 1008; others stay open', async (_, message) => {
    const tenant = await newTenant();
    const token = await adminSession(service, tenant);
    const quiet = await subscriber(tenant);
    const socket = await authenticated(token);
    const answered = socket.messages.length;
    for (let i = 0; i < FLOOD; i++) socket.send(message(token));
    await until(
      () => socket.closed !== null || socket.messages.length === answered + FLOOD,
      WITHIN_MS,
      () => `${socket.messages.length - answered} of ${FLOOD} answered`,
    );
    if (socket.closed !== null) expect([1008, BROKEN]).toContain(socket.closed.code);
    await expectDelivery(tenant, 'delivered', quiet);
    quiet.close();
    socket.close();
    await expectAllLeasesFree(tenant);
  });
});

test('messages beyond the pace of a socket, or of all sockets of a tenant, wait; those of another tenant do not', () => {
  const { perSecond, burst, tenantPerSecond, tenantBurst } = LIMITS.socketMessages;
  const paces = new MessagePaces();
  const newPace = (): Pace => new Pace({ perSecond, burst });
  const one = newPace();
  const waits = Array.from({ length: burst + 1 }, () => paces.take(one, 'a', 'x', 0));
  expect(waits.slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, () => 0));
  expect(waits.at(-1)).toBeGreaterThan(0);
  expect(paces.take(one, 'a', 'x', 60_000)).toBe(0);
  const frames = Math.ceil(tenantBurst / 65);
  for (let i = 0; i < frames; i++) paces.take(newPace(), 'b', 'x'.repeat(65_536), 60_000);
  const waitMs = paces.take(newPace(), 'b', 'x', 60_000);
  expect(waitMs).toBeGreaterThan(0);
  expect(waitMs).toBeLessThan(1_000 * (200 / tenantPerSecond));
  expect(paces.take(newPace(), 'c', 'x', 60_000)).toBe(0);
});

test('pings count on while a connection is being closed', () => {
  const ended: string[] = [];
  const transport = {
    send: () => {},
    buffered: () => 0,
    close: () => void ended.push('closing'),
    terminate: () => void ended.push('cut'),
  };
  const handler = { close: (_: unknown, code: number) => void ended.push(String(code)) };
  const connection = new Connection({}, handler as unknown as SocketHandler<object>, transport, () => {});
  connection.close(1001);
  for (let i = 0; i < 2 * LIMITS.socketPings.burst; i++) connection.receiveControlFrame(0);
  expect(ended).toEqual(['closing', 'cut', '1008']);
});

// Deno answers pings outside the event loop, and tells the service nothing of them.
if (process.env.SERVICE_RUNTIME !== 'deno') {
  test.each([
    ['pings', 9],
    ['pongs', 10],
  ])('a socket that sends %s without end is disconnected, one that sends some at once is not', async (_, opcode) => {
    const { burst } = LIMITS.socketPings;
    const some = (count: number): Buffer => Buffer.concat(Array.from({ length: count }, () => frame('', opcode)));
    const { socket, received, ended, close } = await rawSocket(service.url);
    socket.write(Buffer.concat([some(burst), frame('{ "type": "ping" }')]));
    await received('"error"');
    socket.write(some(10 * burst));
    await ended(20_000);
    close();
  });
}

test('a network that connects again and again waits, another does not', async () => {
  const { burst, perSecond } = LIMITS.connection.openings;
  const { upgrade } = socketHandler(service.app);
  const finished: string[] = [];
  const connect = async (address: string): Promise<void> => {
    await upgrade(new Request(`${service.url}/ws`), address);
    finished.push(address);
  };
  const [one, other] = ['192.0.2.7', '198.51.100.7'];
  const all = Promise.all(Array.from({ length: burst + perSecond }, () => connect(one)));
  await connect(other);
  const waiting = burst + perSecond - (finished.length - 1);
  expect(finished.at(-1)).toBe(other);
  expect(waiting).toBeGreaterThan(0);
  expect(waiting).toBeLessThanOrEqual(perSecond);
  await all;
  expect(finished).toHaveLength(burst + perSecond + 1);
});

test('messages that wait share a budget of bytes, half of it for one network, and go with their socket', async () => {
  const { tenantBurst, waitMaxMs } = LIMITS.socketMessages;
  const [held, paces] = [new HeldMessages(), new MessagePaces()];
  const closed: number[] = [];
  const connect = (network: string): Connection<object> => {
    const messages = new SocketMessages(paces, network);
    const handler = {
      maxFrameBytes: 65_536,
      maxBufferedBytes: 1,
      open: () => {},
      hold: (_: unknown, bytes: number) => held.hold('', network, bytes),
      message: (_: unknown, text: string) => messages.handle('', text, async () => {}),
      close: () => messages.close(),
    };
    const transport = { send: () => {}, buffered: () => 0, close: (code: number) => void closed.push(code) };
    return new Connection({}, handler as unknown as SocketHandler<object>, transport, () => {});
  };
  // The network has exhausted its pace: later connections wait, but no longer than a client waits for a response.
  const ofNetwork = (): number => paces.take(new Pace(LIMITS.socketMessages), '192.0.2.7', 'x'.repeat(1_023 * 1_024));
  for (let taken = 0; taken < 5 * tenantBurst; taken += 1_024) ofNetwork();
  expect(ofNetwork()).toBeLessThanOrEqual(waitMaxMs);
  const sockets = Array.from({ length: 200 }, () => connect('192.0.2.7'));
  for (let i = 0; i < 4; i++) for (const socket of sockets) socket.receive('x'.repeat(60_000));
  expect(held.bytes).toBeGreaterThan(LIMITS.socketMessageBytes.strangers / 4);
  expect(held.bytes).toBeLessThanOrEqual(LIMITS.socketMessageBytes.strangers / 2);
  const isOpen = (socket: Connection<object>): boolean => socket.send('{}');
  const open = sockets.filter(isOpen).length;
  expect(open).toBeGreaterThan(0);
  expect(open).toBeLessThan(sockets.length);
  sockets.push(connect('198.51.100.7'));
  sockets.at(-1)?.receive('x'.repeat(60_000));
  expect(sockets.filter(isOpen).length).toBe(open + 1);
  // Not at once, so that a client that floods does not connect again at once.
  expect(closed).toEqual([]);
  await until(
    () => closed.length === sockets.length - open - 1,
    4_000,
    () => `${closed.length} are closed`,
  );
  expect(new Set(closed)).toEqual(new Set([1008]));
  for (const socket of sockets) socket.finish(1006);
  await until(
    () => held.bytes === 0,
    waitMaxMs / 2,
    () => `${held.bytes} bytes are held`,
  );
});

test('messages held for a socket go out in one write, before later messages and before the close', () => {
  const sent: string[] = [];
  const handler = { maxFrameBytes: 65_536, maxBufferedBytes: 1, open: () => {}, close: () => {} };
  const transport = {
    send: (text: string) => void sent.push(text),
    together: (sends: () => void) => {
      sent.push('[');
      sends();
      sent.push(']');
    },
    buffered: () => 0,
    close: (code: number) => void sent.push(String(code)),
  };
  const socket = new Connection({}, handler as unknown as SocketHandler<object>, transport, () => {});
  for (const text of ['a', 'b']) socket.hold(text);
  expect(sent).toEqual([]);
  expect(socket.flush()).toBe(true);
  socket.flush();
  socket.hold('c');
  socket.send('d');
  socket.send('e');
  socket.hold('f');
  socket.close(1001);
  socket.hold('g');
  expect(socket.flush()).toBe(false);
  socket.finish(1001);
  expect(sent).toEqual(['[', 'a', 'b', ']', '[', 'c', 'd', ']', 'e', 'f', '1001']);
});

describe('connections are isolated', () => {
  test('an unsubscribe ends the connection’s own subscription only', async () => {
    const tenant = await newTenant();
    const [staying, leaving] = [await subscriber(tenant), await subscriber(tenant)];
    const foreign = await subscriber(await newTenant());
    for (const socket of [leaving, foreign]) {
      expect((await socket.ask({ type: 'unsubscribe', entity: 'articles' })).type).toBe('unsubscribed');
      expect((await socket.ask({ type: 'unsubscribe', entity: 'articles' })).type).toBe('unsubscribed');
    }
    await expectDelivery(tenant, 'delivered', staying);
    for (const socket of [leaving, foreign]) expect(await socket.ask({ type: 'ping' })).toEqual({ type: 'pong' });
  });

  test('authenticating for another tenant ends the subscriptions and the lease of the first', async () => {
    const [first, second] = [await newTenant(), await newTenant()];
    const tokens = [await adminSession(service, first), await adminSession(service, second)] as const;
    for (let i = 0; i < CONNECTIONS + 2; i++) {
      const socket = await subscribed(await authenticated(tokens[0]), 'articles');
      const { type } = await socket.ask({ type: 'auth', token: tokens[1] });
      // The previous connection's lease may not have ended yet.
      if (type !== 'auth_ok') continue;
      expect((await first.post(RECORDS, { title: 'of the first' })).status).toBe(201);
      expect((await second.post(RECORDS, { title: 'not subscribed to' })).status).toBe(201);
      await subscribed(socket, 'articles');
      expect((await first.post(RECORDS, { title: 'of the first' })).status).toBe(201);
      await expectDelivery(second, 'of the second', socket);
      socket.close();
    }
    for (const tenant of [first, second]) await expectAllLeasesFree(tenant);
  });

  test('a token that may read less keeps only the subscriptions it may read', async () => {
    const tenant = await newTenant();
    const socket = await subscribed(await authenticated(await adminSession(service, tenant)), 'articles', 'notes');
    const token = await botToken(service, tenant, { notes: ['read'] });
    expect(await socket.ask({ type: 'auth', token })).toEqual({ type: 'auth_ok' });
    expect((await tenant.post(RECORDS, { title: 'not for the bot' })).status).toBe(201);
    expect((await tenant.post('/api/entities/notes/records', { title: 'for the bot' })).status).toBe(201);
    expect((await socket.next()).data.title).toBe('for the bot');
  });

  test('a rejected token does not affect an authenticated connection', async () => {
    const tenant = await newTenant();
    const socket = await subscriber(tenant);
    for (const token of ['', 'svc_pkey_nonsense', crypto.randomUUID(), tenant.key]) {
      expect((await socket.ask({ type: 'auth', token })).type).toBe('auth_error');
    }
    await expectDelivery(tenant, 'delivered', socket);
  });

  test('a client that closes before its auth is answered, or authenticates for two tenants at once, leaks no lease', async () => {
    const [first, second] = [await newTenant(), await newTenant()];
    const tokens = [await adminSession(service, first), await adminSession(service, second)];
    for (let i = 0; i < 10; i++) {
      const leaving = await connect();
      for (const token of tokens) leaving.send({ type: 'auth', token });
      leaving.close();
      (await authenticated(...tokens)).close();
    }
    for (const tenant of [first, second]) await expectAllLeasesFree(tenant);
  });
});

describe('a page of another origin', () => {
  const OWN = 'https://app.example.com';

  /** The answer to a public key from a page of this origin, or from a client without one. */
  async function fromPage(origin: string | null, token: string): Promise<string> {
    const socket = await openSocket(service.url, origin === null ? {} : { origin });
    keep(socket);
    const { type } = await socket.ask({ type: 'auth', token });
    socket.close();
    await socket.ended();
    return type;
  }

  test('cannot use a public key that is restricted to other origins, however similar', async () => {
    const tenant = await newTenant();
    const roles = (await tenant.get('/api/roles')).body.data;
    const roleId = roles.find(({ name }: Json) => name === 'viewer').id;
    const input = { label: 'page', roleId, scopes: ['channels:read'], allowedOrigins: [OWN] };
    const { id, key } = (await tenant.post('/api/auth/public-keys', input)).body.data;
    for (const origin of [OWN, null]) expect([origin, await fromPage(origin, key)]).toEqual([origin, 'auth_ok']);
    const foreign = [
      'https://evil.example',
      'null',
      'http://app.example.com',
      'https://app.example.com:444',
      'https://app.example.com.evil.example',
      'https://evilapp.example.com',
      'https://APP.example.com',
      'https://app.example.com/',
      'https://app.example.com, https://evil.example',
    ];
    for (const origin of foreign) expect([origin, await fromPage(origin, key)]).toEqual([origin, 'auth_error']);
    await tenant.patch(`/api/auth/public-keys/${id}`, { allowedOrigins: ['https://other.example.com'] });
    expect(await fromPage(OWN, key)).toBe('auth_error');
  });

  test('cannot use a visitor’s cookies or headers: only the auth message counts', async () => {
    const tenant = await newTenant();
    const token = await adminSession(service, tenant);
    const headers = { origin: 'https://evil.example', cookie: `token=${token}`, authorization: `Bearer ${token}` };
    const socket = await openSocket(service.url, headers);
    keep(socket);
    expect((await socket.ask({ type: 'subscribe', entity: 'articles' })).code).toBe('not_authenticated');
  });
});

test('messages within the burst are handled in pieces: the event loop runs between those of many sockets', async () => {
  const paces = new MessagePaces();
  const sockets = Array.from({ length: 40 }, () => new SocketMessages(paces, '192.0.2.7'));
  let turns = 0;
  let isDone = false;
  const count = (): void => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const busy = async (): Promise<void> => {
    for (const until = performance.now() + 1; performance.now() < until; );
  };
  const handleAll = async (socket: SocketMessages): Promise<void> => {
    for (let i = 0; i < 10; i++) await socket.handle('a tenant', '{"type":"ping"}', busy);
  };
  await Promise.all(sockets.map(handleAll));
  isDone = true;
  expect(turns).toBeGreaterThan(20);
});
