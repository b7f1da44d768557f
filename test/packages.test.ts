// Packages that customers use work with the service unchanged: `eventsource`, `ws` and `standardwebhooks`. `ws` is
// imported by its path, because Bun replaces the package of that name with its own client.
// Contract: interface#sse, interface#websocket, decisions#webhook-requests.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { EventSource } from 'eventsource';
import { Webhook } from 'standardwebhooks';
import type { WebSocket as Ws } from 'ws';
import { adminSession } from './support/credentials.ts';
import { startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
});

test('eventsource', async () => {
  const source = new EventSource(`${service.url}/api/v1/tenants/${tenant.slug}/events/stream`, {
    fetch: (input, init) =>
      fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${tenant.key}` } }),
  });
  const next = (type: string): Promise<{ data: string; lastEventId: string }> =>
    new Promise((resolve, reject) => {
      source.addEventListener(type, resolve, { once: true });
      source.addEventListener('error', ({ message }) => reject(new Error(message)), { once: true });
    });
  const [connected] = await Promise.all([next('connected'), next('heartbeat')]);
  expect([JSON.parse(connected.data).tenant, connected.lastEventId]).toEqual([tenant.slug, '1']);
  const created = next('record.created');
  await tenant.post(RECORDS, { title: 'ünïcode ✓' });
  expect(JSON.parse((await created).data).data.fields.title).toBe('ünïcode ✓');
  source.close();
});

test('ws', async () => {
  const address: string = '../node_modules/ws/wrapper.mjs';
  const { WebSocket: Client } = (await import(address)) as { WebSocket: typeof Ws };
  const socket = new Client(`${service.url.replace('http', 'ws')}/ws`);
  const messages: Json[] = [];
  const waiting: ((message: Json) => void)[] = [];
  socket.on('message', (bytes) => {
    const message = JSON.parse(String(bytes));
    const wake = waiting.shift();
    if (wake) wake(message);
    else messages.push(message);
  });
  const next = (): Promise<Json> =>
    messages.length > 0 ? Promise.resolve(messages.shift()) : new Promise((resolve) => waiting.push(resolve));
  const ask = (message: object): Promise<Json> => {
    socket.send(JSON.stringify(message));
    return next();
  };
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  expect(await ask({ type: 'auth', token: await adminSession(service, tenant) })).toEqual({ type: 'auth_ok' });
  expect(await ask({ type: 'subscribe', entity: 'task' })).toEqual({ type: 'subscribed', entity: 'task' });
  await tenant.post(RECORDS, { title: 'ünïcode ✓' });
  expect(await next()).toMatchObject({ type: 'record.created', entity: 'task', data: { title: 'ünïcode ✓' } });
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.send(new Uint8Array([1, 2, 3]));
  expect(await closed).toBe(1003);
});

test.each(['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'a secret without a prefix'])(
  'standardwebhooks, with %s',
  async (secret) => {
    const receiver = await startReceiver();
    const subscription = { entity_name: 'task', event_types: ['record.created'], url: receiver.url, secret };
    expect((await tenant.post('/api/webhooks/subscriptions', subscription)).status).toBe(201);
    await tenant.post(RECORDS, { title: 'ünïcode ✓' });
    const [sent] = await receiver.waitFor(1);
    const verifier = new Webhook(secret, secret.startsWith('whsec_') ? {} : { format: 'raw' });
    expect(verifier.verify(sent?.text ?? '', sent?.headers ?? {})).toEqual(sent?.body);
    expect(() => verifier.verify(`${sent?.text} `, sent?.headers ?? {})).toThrow();
    await receiver.stop();
  },
);
