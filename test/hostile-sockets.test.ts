// What hostile clients do on the WebSocket with messages that are whole: nobody else notices, nothing is left behind.
// Those that do not read are in hostile-readers, forged tokens in hostile-tokens.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { closeAfterEach } from './support/connections.ts';
import { adminSession, botToken } from './support/credentials.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { openSocket, type TestSocket, until } from './support/streams.ts';

const PLACES = 3;
const SUBSCRIPTIONS = 2;
const FLOOD = 10_000;
const RECORDS = '/api/entities/articles/records';
const WITHIN_MS = 60_000;
/** What a client may see instead of the code when it was still sending as the connection was closed. */
const BROKEN = 1006;

let service: TestService;
beforeAll(async () => {
  service = await startService({
    WS_MAX_CONNECTIONS_PER_TENANT: String(PLACES),
    WS_MAX_SUBSCRIPTIONS: String(SUBSCRIPTIONS),
  });
});
afterAll(() => service.stop());

const keep = closeAfterEach();
const connect = async (): Promise<TestSocket> => keep(await openSocket(service.url));
const newTenant = () => tenantWithEntities(service, ['articles', 'notes', 'lists'], fields('title text'));

/** A connection that got in, one token after the other. The place of one that is gone is free a moment later. */
async function admitted(...tokens: string[]): Promise<TestSocket> {
  for (;;) {
    const socket = await connect();
    for (const token of tokens) socket.send({ type: 'auth', token });
    await until(
      () => socket.closed !== null || socket.messages.length === tokens.length,
      WITHIN_MS,
      () => 'neither let in nor refused',
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

const listening = async (tenant: TestTenant): Promise<TestSocket> =>
  subscribed(await admitted(await adminSession(service, tenant)), 'articles');

/** Each of the sockets gets the next change, and nothing before it. */
async function expectToHear(tenant: TestTenant, title: string, ...hearers: TestSocket[]): Promise<void> {
  expect((await tenant.post(RECORDS, { title })).status).toBe(201);
  for (const hearer of hearers) expect((await hearer.next()).data?.title).toBe(title);
}

/** All places of the tenant can be had, if not at once. */
async function expectAllPlacesFree(tenant: TestTenant): Promise<void> {
  const token = await adminSession(service, tenant);
  const taken: TestSocket[] = [];
  while (taken.length < PLACES) taken.push(await admitted(token));
  for (const socket of taken) socket.close();
}

describe('messages', () => {
  const deep = '['.repeat(30_000) + ']'.repeat(30_000);
  test.each<[string, string, Json]>([
    ['nested 30,000 deep', deep, { code: 'invalid_message' }],
    ['nested deep in a member', `{"type":"ping","x":${deep}}`, { type: 'pong' }],
    ['as long as a frame may be', `{"type":"${'x'.repeat(65_500)}"}`, { code: 'invalid_message' }],
    ['of a name as long', `{"type":"subscribe","entity":"${'x'.repeat(65_000)}"}`, { code: 'entity_not_found' }],
    ['of a type twice: the last counts', '{"type":"ping","type":"subscribe"}', { code: 'invalid_message' }],
    ['of a type in the prototype', '{"__proto__":{"type":"ping"}}', { code: 'invalid_message' }],
    ['of a type that is a list', '{"type":["ping"]}', { code: 'invalid_message' }],
    ['of a name that is an object', '{"type":"subscribe","entity":{"x":1}}', { code: 'invalid_message' }],
    ['of the prototype’s name', '{"type":"subscribe","entity":"__proto__"}', { code: 'entity_not_found' }],
    ['of everything', '{"type":"subscribe","entity":"*"}', { code: 'entity_not_found' }],
    ['of a pattern', '{"type":"subscribe","entity":"art%"}', { code: 'entity_not_found' }],
    ['of NUL', '{"type":"subscribe","entity":"articles\\u0000"}', { code: 'entity_not_found' }],
    ['of half a surrogate pair', '{"type":"subscribe","entity":"\\ud800"}', { code: 'entity_not_found' }],
    ['of SQL', '{"type":"subscribe","entity":"articles\' or \'1\'=\'1"}', { code: 'entity_not_found' }],
    ['that are empty', '', { code: 'invalid_message' }],
    ['of half an object', '{"type":', { code: 'invalid_message' }],
    ['with a token that is none', '{"type":"auth","token":{}}', { code: 'invalid_message' }],
  ])('%s are answered, and the connection goes on', async (_, text, answer) => {
    const tenant = await newTenant();
    const socket = await listening(tenant);
    expect(await socket.ask(text)).toMatchObject(answer);
    expect(await socket.ask({ type: 'ping' })).toEqual({ type: 'pong' });
    await expectToHear(tenant, 'heard', socket);
  });

  test('behind one that closes the connection are not looked at', async () => {
    const tenant = await newTenant();
    const token = await adminSession(service, tenant);
    const socket = await connect();
    socket.raw.send(new Uint8Array([1, 2, 3]));
    socket.send({ type: 'auth', token });
    socket.send({ type: 'subscribe', entity: 'articles' });
    expect([1003, BROKEN]).toContain(await socket.ended());
    expect(socket.messages).toEqual([]);
    await expectAllPlacesFree(tenant);
  });
});

describe('floods', () => {
  test('of 10,000 subscribes as many count as may, each other one is refused, and an event comes once', async () => {
    const tenant = await newTenant();
    const socket = await admitted(await adminSession(service, tenant));
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
    await expectToHear(tenant, 'heard', socket);
    expect(await socket.ask({ type: 'ping' })).toEqual({ type: 'pong' });
  });

  test.each<[string, (token: string) => object]>([
    ['pings', () => ({ type: 'ping' })],
    ['subscribes', () => ({ type: 'subscribe', entity: 'articles' })],
    ['auths with a good token', (token) => ({ type: 'auth', token })],
    ['auths with a made up token', () => ({ type: 'auth', token: `svc_pkey_${crypto.randomUUID()}` })],
  ])('of 10,000 %s at once are answered each, or the connection is closed with 1008; others go on', async (_, made) => {
    const tenant = await newTenant();
    const token = await adminSession(service, tenant);
    const quiet = await listening(tenant);
    const socket = await admitted(token);
    const answered = socket.messages.length;
    for (let i = 0; i < FLOOD; i++) socket.send(made(token));
    await until(
      () => socket.closed !== null || socket.messages.length === answered + FLOOD,
      WITHIN_MS,
      () => `${socket.messages.length - answered} of ${FLOOD} answered`,
    );
    if (socket.closed !== null) expect([1008, BROKEN]).toContain(socket.closed.code);
    await expectToHear(tenant, 'heard', quiet);
    quiet.close();
    socket.close();
    await expectAllPlacesFree(tenant);
  });
});

describe('nobody touches what is another’s', () => {
  test('an unsubscribe ends nothing but one’s own subscription', async () => {
    const tenant = await newTenant();
    const [hearer, leaver] = [await listening(tenant), await listening(tenant)];
    const stranger = await listening(await newTenant());
    for (const socket of [leaver, stranger]) {
      expect((await socket.ask({ type: 'unsubscribe', entity: 'articles' })).type).toBe('unsubscribed');
      expect((await socket.ask({ type: 'unsubscribe', entity: 'articles' })).type).toBe('unsubscribed');
    }
    await expectToHear(tenant, 'heard', hearer);
    for (const socket of [leaver, stranger]) expect(await socket.ask({ type: 'ping' })).toEqual({ type: 'pong' });
  });

  test('who authenticates for another tenant leaves the first with all its subscriptions, and gives its place back', async () => {
    const [first, second] = [await newTenant(), await newTenant()];
    const tokens = [await adminSession(service, first), await adminSession(service, second)] as const;
    for (let i = 0; i < PLACES + 2; i++) {
      const socket = await subscribed(await admitted(tokens[0]), 'articles');
      const { type } = await socket.ask({ type: 'auth', token: tokens[1] });
      // The place of the one before may not have come back yet.
      if (type !== 'auth_ok') continue;
      expect((await first.post(RECORDS, { title: 'of the first' })).status).toBe(201);
      expect((await second.post(RECORDS, { title: 'not subscribed to' })).status).toBe(201);
      await subscribed(socket, 'articles');
      expect((await first.post(RECORDS, { title: 'of the first' })).status).toBe(201);
      await expectToHear(second, 'of the second', socket);
      socket.close();
    }
    for (const tenant of [first, second]) await expectAllPlacesFree(tenant);
  });

  test('a token with less to read keeps no more than it may read', async () => {
    const tenant = await newTenant();
    const socket = await subscribed(await admitted(await adminSession(service, tenant)), 'articles', 'notes');
    const token = await botToken(service, tenant, { notes: ['read'] });
    expect(await socket.ask({ type: 'auth', token })).toEqual({ type: 'auth_ok' });
    expect((await tenant.post(RECORDS, { title: 'not for the bot' })).status).toBe(201);
    expect((await tenant.post('/api/entities/notes/records', { title: 'for the bot' })).status).toBe(201);
    expect((await socket.next()).data.title).toBe('for the bot');
  });

  test('a refused token changes nothing for a connection that has a good one', async () => {
    const tenant = await newTenant();
    const socket = await listening(tenant);
    for (const token of ['', 'svc_pkey_nonsense', crypto.randomUUID(), tenant.key]) {
      expect((await socket.ask({ type: 'auth', token })).type).toBe('auth_error');
    }
    await expectToHear(tenant, 'heard', socket);
  });

  test('who leaves before its auth is answered, or asks for two tenants at once, leaves no place taken', async () => {
    const [first, second] = [await newTenant(), await newTenant()];
    const tokens = [await adminSession(service, first), await adminSession(service, second)];
    for (let i = 0; i < 10; i++) {
      const leaver = await connect();
      for (const token of tokens) leaver.send({ type: 'auth', token });
      leaver.close();
      (await admitted(...tokens)).close();
    }
    for (const tenant of [first, second]) await expectAllPlacesFree(tenant);
  });
});

describe('a foreign page', () => {
  const OWN = 'https://app.example.com';

  /** The answer to a public key from a page of this origin; null where the client is no browser. */
  async function fromPage(origin: string | null, token: string): Promise<string> {
    const socket = await openSocket(service.url, origin === null ? {} : { origin });
    keep(socket);
    const { type } = await socket.ask({ type: 'auth', token });
    socket.close();
    await socket.ended();
    return type;
  }

  test('gets in with no public key that is bound to other origins, however alike they look', async () => {
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

  test('finds nothing in a visitor’s cookies or the address: who says nothing is nobody', async () => {
    const tenant = await newTenant();
    const token = await adminSession(service, tenant);
    const headers = { origin: 'https://evil.example', cookie: `token=${token}`, authorization: `Bearer ${token}` };
    const socket = await openSocket(service.url, headers);
    keep(socket);
    expect((await socket.ask({ type: 'subscribe', entity: 'articles' })).code).toBe('not_authenticated');
  });
});
