// The WebSocket: its protocol message by message, tokens, limits and access by role.
// Contract: interface#websocket, decisions#websocket.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { NEW_SOCKET, receive, type SocketState } from '../src/realtime/websocket-protocol.ts';
import { closeAfterEach } from './support/connections.ts';
import { addRole, adminSession, botToken, platformKey, publicKey, userToken } from './support/credentials.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { startService, type TestService } from './support/service.ts';
import { openSocket, subscribeSocket, type TestSocket } from './support/streams.ts';
import { runInSchema } from './support/tenant-database.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService({ WS_MAX_CONNECTIONS_PER_TENANT: '3', WS_MAX_SUBSCRIPTIONS: '2' });
});
afterAll(() => service.stop());

const keep = closeAfterEach();
const connect = async (): Promise<TestSocket> => keep(await openSocket(service.url));
const newTenant = () =>
  tenantWithEntities(service, ['articles', 'notes', 'lists'], fields('title text', 'secret text'));

const RECORDS = '/api/entities/articles/records';
const READ_ALL = { permissions: { '*': ['read' as const] } };

test('auth, subscribe, push, unsubscribe, ping', async () => {
  const tenant = await newTenant();
  const socket = await connect();
  expect(await socket.ask({ type: 'auth', token: await adminSession(service, tenant) })).toEqual({ type: 'auth_ok' });
  expect(await socket.ask({ type: 'subscribe', entity: 'articles' })).toEqual({
    type: 'subscribed',
    entity: 'articles',
  });
  expect(await socket.ask({ type: 'ping' })).toEqual({ type: 'pong' });
  const { data } = (await tenant.post(RECORDS, { title: 'one' })).body;
  expect(await socket.next()).toEqual({
    type: 'record.created',
    entity: 'articles',
    data: { ...data, created_at: data.createdAt, updated_at: data.updatedAt },
  });
  const updated = (await tenant.patch(`${RECORDS}/${data.id}`, { title: 'two' })).body.data;
  expect((await socket.next()).data).toEqual({
    ...updated,
    created_at: updated.createdAt,
    updated_at: updated.updatedAt,
  });
  await tenant.delete(`${RECORDS}/${data.id}`);
  expect(await socket.next()).toEqual({ type: 'record.deleted', entity: 'articles', data: { id: data.id } });
  expect(await socket.ask({ type: 'unsubscribe', entity: 'articles' })).toEqual({
    type: 'unsubscribed',
    entity: 'articles',
  });
  await tenant.post(RECORDS, { title: 'after unsubscribe' });
  expect(await socket.ask({ type: 'ping' })).toEqual({ type: 'pong' });
});

describe('a message before auth, or an invalid one, gets an error', () => {
  const ready: SocketState = { phase: 'ready', entities: [] };
  test.each([
    ['{"type":"subscribe","entity":"articles"}', NEW_SOCKET, 'not_authenticated'],
    ['{"type":"ping"}', NEW_SOCKET, 'not_authenticated'],
    ['nonsense', NEW_SOCKET, 'invalid_message'],
    ['[]', ready, 'invalid_message'],
    ['"auth"', ready, 'invalid_message'],
    ['{"type":"auth"}', NEW_SOCKET, 'invalid_message'],
    ['{"type":"subscribe"}', ready, 'invalid_message'],
    ['{"type":"subscribe","entity":5}', ready, 'invalid_message'],
    ['{"type":"other"}', ready, 'invalid_message'],
    ['{"type":"__proto__"}', ready, 'invalid_message'],
    ['{"type":"subscribe","entity":"articles"}', { ...ready, phase: 'expired' } as const, 'auth_expired'],
  ])('%s', (text, state, code) => {
    const transition = receive(state, text, 10);
    expect(transition.lookup).toBeUndefined();
    expect(transition.replies).toEqual([{ type: 'error', code, message: expect.any(String) }]);
  });
});

test('platform keys, admin sessions, bots and public keys with the channel scope authenticate; other tokens do not', async () => {
  const tenant = await newTenant();
  const role = await addRole(service, tenant, READ_ALL);
  const accepted = [
    await platformKey(service, tenant, role.name, READ_ALL.permissions),
    await adminSession(service, tenant),
    await botToken(service, tenant, { articles: ['read'] }),
    await publicKey(service, tenant, role.id),
  ];
  for (const token of accepted) {
    const socket = await connect();
    expect(await socket.ask({ type: 'auth', token })).toEqual({ type: 'auth_ok' });
    expect((await socket.ask({ type: 'subscribe', entity: 'articles' })).type).toBe('subscribed');
    socket.close();
    await socket.ended();
  }
  const rejected = [
    tenant.key,
    await userToken(service, tenant, 'admin'),
    'svc_pkey_nonsense',
    'x',
    '',
    crypto.randomUUID(),
  ];
  const socket = await connect();
  for (const token of rejected) {
    const answer = await socket.ask({ type: 'auth', token });
    expect([answer.type, answer.code]).toEqual(['auth_error', 'not_authenticated']);
  }
});

test('an unknown or unreadable entity gets entity_not_found; subscriptions are limited', async () => {
  const tenant = await newTenant();
  const token = await botToken(service, tenant, { articles: ['read'], notes: ['read'], lists: ['create'] });
  const socket = keep(await subscribeSocket(service.url, token, 'articles'));
  const missing = await socket.ask({ type: 'subscribe', entity: 'nothing' });
  const hidden = await socket.ask({ type: 'subscribe', entity: 'lists' });
  expect(missing).toEqual({ type: 'error', code: 'entity_not_found', message: expect.any(String) });
  expect(hidden).toEqual(missing);
  expect((await socket.ask({ type: 'subscribe', entity: 'notes' })).type).toBe('subscribed');
  expect((await socket.ask({ type: 'subscribe', entity: 'lists' })).code).toBe('limit_exceeded');
  expect((await socket.ask({ type: 'subscribe', entity: 'articles' })).type).toBe('subscribed');
});

test('a role receives its fields only, and no events of an entity with a row filter', async () => {
  const tenant = await newTenant();
  const role = await addRole(service, tenant, {
    ...READ_ALL,
    entities: { articles: { excludeFields: ['secret'] }, notes: { rowFilter: 'title == "mine"' } },
  });
  const token = await platformKey(service, tenant, role.name, READ_ALL.permissions);
  const socket = keep(await subscribeSocket(service.url, token, 'articles', 'notes'));
  await tenant.post('/api/entities/notes/records', { title: 'mine' });
  await tenant.post(RECORDS, { title: 'open', secret: 'hidden' });
  const push = await socket.next();
  expect([push.entity, push.data.title]).toEqual(['articles', 'open']);
  expect(JSON.stringify(push)).not.toContain('secret');
});

test('a tenant’s connections are limited; one more gets limit_exceeded and is closed', async () => {
  const tenant = await newTenant();
  const token = await adminSession(service, tenant);
  for (let i = 0; i < 3; i++) keep(await subscribeSocket(service.url, token));
  const socket = await connect();
  expect((await socket.ask({ type: 'auth', token })).code).toBe('limit_exceeded');
  expect(await socket.ended()).toBe(1013);
});

test('binary frames and frames over 64 KiB close the connection', async () => {
  const binary = await connect();
  binary.raw.send(new Uint8Array([1, 2, 3]));
  await expect(binary.next()).rejects.toThrow('closed with 1003');
  expect(await binary.ended()).toBe(1003);
  const large = await connect();
  large.send(' '.repeat(65_537));
  expect([1009, 1006]).toContain(await large.ended());
});

test('a socket whose tenant is deleted meanwhile is closed, to connect again, and is no error of the log', async () => {
  const tenant = await newTenant();
  const socket = keep(await subscribeSocket(service.url, await adminSession(service, tenant), 'articles'));
  const errors = (): number => service.logged.filter((line) => line.includes('"level":"error"')).length;
  const before = errors();
  await runInSchema(service, tenant, 'alter table entity_definitions rename to gone');
  await service.app.invalidations.publish('catalog', tenant.id);
  const ended = socket.ended();
  let isOpen = true;
  void ended.finally(() => {
    isOpen = false;
  });
  // For a moment, another process continues with the previous definitions.
  while (isOpen) {
    socket.send({ type: 'subscribe', entity: 'notes' });
    await Bun.sleep(100);
  }
  expect(await ended).toBe(1013);
  expect(errors()).toBe(before);
  await runInSchema(service, tenant, 'alter table gone rename to entity_definitions');
});

test('a second auth keeps the subscriptions', async () => {
  const tenant = await newTenant();
  const socket = keep(await subscribeSocket(service.url, await adminSession(service, tenant), 'articles'));
  const token = await adminSession(service, tenant);
  for (const again of [token, token]) {
    expect(await socket.ask({ type: 'auth', token: again })).toEqual({ type: 'auth_ok' });
  }
  await tenant.post(RECORDS, { title: 'one' });
  expect((await socket.next()).data.title).toBe('one');
  await tenant.post(RECORDS, { title: 'two' });
  expect((await socket.next()).data.title).toBe('two');
});
