// Inline deliveries of new records, which are sent without a claim, and keep-alive connections. Contract: decisions#deliveries.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import process from 'node:process';
import { sql } from '../src/runtime/sql.ts';
import { SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';
const EVENTS = ['record.created', 'record.updated'];

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;
const servers: Server[] = [];

beforeAll(async () => {
  service = await startService({
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_RETRY_BASE_MS: '50',
    WEBHOOK_MAX_RETRIES: '2',
  });
});
afterAll(async () => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  const fields = [
    { key: 'title', type: 'text' },
    { key: 'code', type: 'text', unique: true },
    { key: 'more', type: 'json' },
  ];
  await tenant.post('/api/entities', { name: 'task', fields });
});
afterEach(async () => {
  await receiver.stop();
  for (const server of servers.splice(0)) server.close();
});

/** A subscription that this process has cached, after a first delivery. */
async function cachedSubscription(url = receiver.url): Promise<string> {
  const { id } = await subscribe(tenant, url, { event_types: EVENTS });
  await tenant.post(RECORDS, { title: 'first' });
  expect(await settledDeliveries(tenant, id, 1)).toHaveLength(1);
  await windowFree();
  return id;
}

/** The process frees the slot in its window a moment after the result is committed. */
const windowFree = (): Promise<void> => Bun.sleep(500);

// The embedded database has one session, so no other could hold the lock that a claim needs.
if (process.env.DATABASE_URL) {
  /** Prevents claims for the subscription while `work` runs. */
  const whileLocked = (id: string, work: () => Promise<void>): Promise<void> =>
    service.app.db.begin(async (tx) => {
      await tx.rows(sql`select from platform.webhook_subscriptions where id = ${id}::uuid for no key update`);
      await work();
    });

  test('a new record is delivered without a claim', async () => {
    const id = await cachedSubscription();
    await whileLocked(id, async () => {
      const { id: recordId } = (await tenant.post(RECORDS, { title: 'inline', more: { bb: 1, a: [2] } })).body.data;
      const sent = (await receiver.waitFor(2)).at(-1);
      expect(sent?.body).toMatchObject({
        record_id: `rec_${recordId}`,
        data: { title: 'inline', more: { bb: 1, a: [2] } },
      });
    });
    expect((await settledDeliveries(tenant, id, 2))[0]).toMatchObject({
      status: 'delivered',
      attempt_count: 1,
      http_status: 200,
    });
  });

  test('failed writes release their reservations', async () => {
    const id = await cachedSubscription();
    await tenant.post(RECORDS, { code: 'taken' });
    expect(await settledDeliveries(tenant, id, 2)).toHaveLength(2);
    await windowFree();
    for (let i = 0; i < 40; i++) expect((await tenant.post(RECORDS, { code: 'taken' })).status).toBe(409);
    for (let i = 0; i < 40; i++) expect((await tenant.post(RECORDS, { code: 7 })).status).toBe(400);
    await whileLocked(id, async () => {
      await tenant.post(RECORDS, { title: 'inline' });
      await receiver.waitFor(3);
    });
  });
}

test('a change waits until the record’s creation has been delivered', async () => {
  const id = await cachedSubscription();
  const answered = Promise.withResolvers<void>();
  receiver.answer = async ({ body }, response) => {
    if (body.event === 'record.created') await answered.promise;
    response.writeHead(200).end();
  };
  const record = (await tenant.post(RECORDS, { title: 'made' })).body.data;
  await tenant.patch(`${RECORDS}/${record.id}`, { title: 'changed' });
  answered.resolve();
  expect(await settledDeliveries(tenant, id, 3)).toHaveLength(3);
  const [, made, changed] = receiver.received;
  expect([made?.body.event, changed?.body.event]).toEqual(['record.created', 'record.updated']);
  expect(changed?.from).toBeGreaterThanOrEqual(made?.to as number);
});

const WRITES: [string, (input: Json) => Promise<unknown>][] = [
  ['inline', (input) => tenant.post(RECORDS, input)],
  ['claimed', (input) => tenant.post(`${RECORDS}/bulk`, { operations: [{ op: 'create', data: input }] })],
];

test.each(WRITES)(
  'every attempt at a %s delivery sends the same bytes, even if the entity changes in between',
  async (_, write) => {
    const id = await cachedSubscription();
    receiver.answer = (_, response) => void response.writeHead(receiver.received.length < 2 ? 500 : 200).end();
    await write({ title: 'again', more: { bb: 1, a: 2 } });
    await receiver.waitFor(2);
    await tenant.post('/api/entities/task/fields', { key: 'late', type: 'text' });
    expect(await settledDeliveries(tenant, id, 2)).toHaveLength(2);
    const [, first, second] = receiver.received;
    expect(second?.text).toBe(first?.text as string);
    expect(second?.headers['x-svc-attempt']).toBe('2');
  },
);

test('an inline delivery of a process that died is sent by another once its lease has expired', async () => {
  const id = await cachedSubscription();
  await service.app.db.rows(sql`
    update platform.webhook_deliveries
    set status = 'pending', attempt_count = 0, body = null, completed_at = null, claim_id = gen_random_uuid(), next_at = now()
    where subscription_id = ${id}::uuid`);
  // Changing a subscription schedules claims for it.
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
  const [first, second] = await receiver.waitFor(2);
  expect(second?.text).toBe(first?.text as string);
  expect((await settledDeliveries(tenant, id, 1))[0]).toMatchObject({ status: 'delivered', attempt_count: 1 });
});

test('many concurrent writes are delivered once each, within the maximum window', async () => {
  const id = await cachedSubscription();
  let [inFlight, max] = [0, 0];
  receiver.answer = async (_, response) => {
    max = Math.max(max, ++inFlight);
    await Bun.sleep(5);
    inFlight--;
    response.writeHead(200).end();
  };
  const writes = Array.from({ length: 300 }, (_, i) => tenant.post(RECORDS, { title: String(i) }));
  // On a busy machine some wait longer for the database than they may, and are refused.
  for (const { status } of await Promise.all(writes)) expect([201, 503]).toContain(status);
  const { total } = (await tenant.get(`${RECORDS}?limit=1`)).body.data;
  expect(total).toBeGreaterThan(32);
  expect(await settledDeliveries(tenant, id, total)).toHaveLength(total);
  expect(new Set(receiver.received.map(({ body }) => body.id)).size).toBe(total);
  expect(receiver.received).toHaveLength(total);
  expect(max).toBeLessThanOrEqual(32);
});

describe('connections', () => {
  /** Counts connections and answers each request with 200; `after` runs once the answer is written. */
  async function countingReceiver(after: (socket: Socket) => void = () => undefined) {
    const seen = { connections: 0, open: 0, requests: 0, url: '' };
    const server = createServer((socket) => {
      seen.connections++;
      seen.open++;
      socket.on('close', () => void seen.open--);
      socket.on('error', () => socket.destroy());
      socket.on('data', (chunk) => {
        // The body may arrive in a later chunk; one head is one request.
        if (!chunk.toString().includes('HTTP/1.1\r\n')) return;
        seen.requests++;
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', () => after(socket));
      });
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    seen.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    return seen;
  }

  test('are reused by consecutive deliveries and closed when idle', async () => {
    const seen = await countingReceiver();
    const id = await cachedSubscription(seen.url);
    for (let i = 0; i < 20; i++) {
      await tenant.post(RECORDS, { title: String(i) });
      expect(await settledDeliveries(tenant, id, i + 2)).toHaveLength(i + 2);
    }
    expect(seen.requests).toBe(21);
    expect(seen.connections).toBeLessThan(21);
    for (const until = Date.now() + 20_000; seen.open > 0 && Date.now() < until; ) await Bun.sleep(50);
    expect(seen.open).toBe(0);
  });

  test('are not shared between subscriptions', async () => {
    const seen = await countingReceiver();
    const first = await cachedSubscription(`${seen.url}1`);
    const { id: second } = await subscribe(tenant, `${seen.url}2`, { event_types: EVENTS });
    await tenant.post(RECORDS, { title: 'both' });
    expect(await settledDeliveries(tenant, first, 2)).toHaveLength(2);
    expect(await settledDeliveries(tenant, second, 1)).toHaveLength(1);
    expect(seen.connections).toBeGreaterThanOrEqual(2);
  });

  test('that the receiver closes do not make a delivery fail', async () => {
    const seen = await countingReceiver((socket) => setTimeout(() => socket.destroy(), 3));
    const id = await cachedSubscription(seen.url);
    for (let i = 0; i < 30; i++) await tenant.post(RECORDS, { title: String(i) });
    const list = await settledDeliveries(tenant, id, 31);
    expect(list.every(({ status }) => status === 'delivered')).toBe(true);
  });
});
