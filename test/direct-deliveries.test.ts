// Deliveries of new records leave without being claimed, over connections that are kept while they follow one
// another; nothing else about them differs. Contract: decisions#deliveries.
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

/** A subscription of which this process knows by a first delivery. */
async function known(url = receiver.url): Promise<string> {
  const { id } = await subscribe(tenant, url, { event_types: EVENTS });
  await tenant.post(RECORDS, { title: 'first' });
  expect(await settledDeliveries(tenant, id, 1)).toHaveLength(1);
  await placesFree();
  return id;
}

/** The process hears a moment after everybody else that an outcome is committed; only then it has a place again. */
const placesFree = (): Promise<void> => Bun.sleep(200);

// The embedded database has one session: nobody else could hold the lock that a claim needs.
if (process.env.DATABASE_URL) {
  /** While it runs nothing of the subscription can be claimed. */
  const whileLocked = (id: string, work: () => Promise<void>): Promise<void> =>
    service.app.db.begin(async (tx) => {
      await tx.rows(sql`select from platform.webhook_subscriptions where id = ${id}::uuid for no key update`);
      await work();
    });

  test('a new record is told of without a claim', async () => {
    const id = await known();
    await whileLocked(id, async () => {
      const { id: recordId } = (await tenant.post(RECORDS, { title: 'direct', more: { bb: 1, a: [2] } })).body.data;
      const sent = (await receiver.waitFor(2)).at(-1);
      expect(sent?.body).toMatchObject({
        record_id: `rec_${recordId}`,
        data: { title: 'direct', more: { bb: 1, a: [2] } },
      });
    });
    expect((await settledDeliveries(tenant, id, 2))[0]).toMatchObject({
      status: 'delivered',
      attempt_count: 1,
      http_status: 200,
    });
  });

  test('writes that are refused give their places back', async () => {
    const id = await known();
    await tenant.post(RECORDS, { code: 'taken' });
    expect(await settledDeliveries(tenant, id, 2)).toHaveLength(2);
    await placesFree();
    for (let i = 0; i < 40; i++) expect((await tenant.post(RECORDS, { code: 'taken' })).status).toBe(409);
    for (let i = 0; i < 40; i++) expect((await tenant.post(RECORDS, { code: 7 })).status).toBe(400);
    await whileLocked(id, async () => {
      await tenant.post(RECORDS, { title: 'direct' });
      await receiver.waitFor(3);
    });
  });
}

test('a change that follows waits until the record’s creation has arrived', async () => {
  const id = await known();
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
  ['that left without a claim', (input) => tenant.post(RECORDS, input)],
  ['that was claimed', (input) => tenant.post(`${RECORDS}/bulk`, { operations: [{ op: 'create', data: input }] })],
];

test.each(WRITES)('every attempt at one %s has the same bytes, whatever changes in between', async (_, write) => {
  const id = await known();
  receiver.answer = (_, response) => void response.writeHead(receiver.received.length < 2 ? 500 : 200).end();
  await write({ title: 'again', more: { bb: 1, a: 2 } });
  await receiver.waitFor(2);
  await tenant.post('/api/entities/task/fields', { key: 'late', type: 'text' });
  expect(await settledDeliveries(tenant, id, 2)).toHaveLength(2);
  const [, first, second] = receiver.received;
  expect(second?.text).toBe(first?.text as string);
  expect(second?.headers['x-svc-attempt']).toBe('2');
});

test('what a process took with it when it died is sent by another, after its lease', async () => {
  const id = await known();
  await service.app.db.rows(sql`
    update platform.webhook_deliveries
    set status = 'pending', attempt_count = 0, body = null, completed_at = null, claim_id = gen_random_uuid(), next_at = now()
    where subscription_id = ${id}::uuid`);
  // Its subscriptions are looked at when one is changed.
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
  const [first, second] = await receiver.waitFor(2);
  expect(second?.text).toBe(first?.text as string);
  expect((await settledDeliveries(tenant, id, 1))[0]).toMatchObject({ status: 'delivered', attempt_count: 1 });
});

test('many at once arrive once each, and no more than a subscription may have are on their way', async () => {
  const id = await known();
  let [now, most] = [0, 0];
  receiver.answer = async (_, response) => {
    most = Math.max(most, ++now);
    await Bun.sleep(5);
    now--;
    response.writeHead(200).end();
  };
  await Promise.all(Array.from({ length: 300 }, (_, i) => tenant.post(RECORDS, { title: String(i) })));
  expect(await settledDeliveries(tenant, id, 301)).toHaveLength(301);
  expect(new Set(receiver.received.map(({ body }) => body.id)).size).toBe(301);
  expect(receiver.received).toHaveLength(301);
  expect(most).toBeLessThanOrEqual(32);
});

describe('connections', () => {
  /** Counts connections, and answers each request with 200; `after` sees the connection once it has answered. */
  async function counting(after: (socket: Socket) => void = () => undefined) {
    const seen = { connections: 0, open: 0, requests: 0, url: '' };
    const server = createServer((socket) => {
      seen.connections++;
      seen.open++;
      socket.on('close', () => void seen.open--);
      socket.on('error', () => socket.destroy());
      socket.on('data', (chunk) => {
        // The body follows its head in the same piece or the next; one head is one request.
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

  test('are kept while deliveries follow one another, and closed when they do not', async () => {
    const seen = await counting();
    const id = await known(seen.url);
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
    const seen = await counting();
    const first = await known(`${seen.url}1`);
    const { id: second } = await subscribe(tenant, `${seen.url}2`, { event_types: EVENTS });
    await tenant.post(RECORDS, { title: 'both' });
    expect(await settledDeliveries(tenant, first, 2)).toHaveLength(2);
    expect(await settledDeliveries(tenant, second, 1)).toHaveLength(1);
    expect(seen.connections).toBeGreaterThanOrEqual(2);
  });

  test('that the receiver closes without a word cost an attempt at most, which is made good at once', async () => {
    const seen = await counting((socket) => setTimeout(() => socket.destroy(), 3));
    const id = await known(seen.url);
    for (let i = 0; i < 30; i++) await tenant.post(RECORDS, { title: String(i) });
    const list = await settledDeliveries(tenant, id, 31);
    expect(list.every(({ status }) => status === 'delivered')).toBe(true);
  });
});
