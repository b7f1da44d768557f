// Delivery with faulty and hostile receivers: at least once, in the order of a record's changes, never two at once for
// one record, and no receiver delays another. Contract: decisions#deliveries.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { type App, closeApp, createApp } from '../src/app.ts';
import { notifyCommitted } from '../src/events/publication.ts';
import { LIMITS } from '../src/limits.ts';
import { newId } from '../src/runtime/ids.ts';
import { createLog } from '../src/runtime/log.ts';
import { sql } from '../src/runtime/sql.ts';
import { retryDelayMs } from '../src/webhooks/dispatch/attempt-result.ts';
import { Dispatcher } from '../src/webhooks/dispatch/dispatcher.ts';
import { Schedule } from '../src/webhooks/dispatch/schedule.ts';
import { SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { type Received, type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { durationOf, fastest } from './support/timing.ts';

const RECORDS = '/api/entities/task/records';
/** An attempt timeout that no test reaches. */
const LONG_MS = 60_000;
const SHORT_MS = 1_000;

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;
const servers: Server[] = [];
const sockets: Socket[] = [];

async function start(timeoutMs: number): Promise<void> {
  service = await startService({
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_RETRY_BASE_MS: '50',
    WEBHOOK_RETRY_FACTOR: '2',
    WEBHOOK_MAX_RETRIES: '1',
    WEBHOOK_TIMEOUT_MS: String(timeoutMs),
  });
}

beforeAll(() => start(LONG_MS));
afterAll(async () => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
});
afterEach(async () => {
  await receiver.stop();
  for (const server of servers.splice(0)) server.close();
  for (const socket of sockets.splice(0)) socket.destroy();
  // Deletes pending deliveries, which would delay the next test.
  await tenant.delete('/api/entities/task?confirm=task');
});

/** A receiver that runs `behave` on the connection once a request has begun. */
async function startHostile(behave: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    // Expected: the service closes the connection.
    socket.on('error', () => socket.destroy());
    sockets.push(socket);
    socket.once('data', () => behave(socket));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Writes `first`, then `text` at an interval until the connection is closed. */
function drip(ms: number, socket: Socket, text: () => string, first = ''): void {
  if (first !== '') socket.write(first);
  const timer = setInterval(() => (socket.destroyed ? clearInterval(timer) : void socket.write(text())), ms);
}

const OK = 'HTTP/1.1 200 OK\r\nConnection: close\r\n';

describe('a receiver that never finishes', () => {
  beforeAll(async () => {
    await service.stop();
    await start(SHORT_MS);
  });
  afterAll(async () => {
    await service.stop();
    await start(LONG_MS);
  });

  test.each<[string, (socket: Socket) => void, Json]>([
    ['never answers', () => undefined, { status: 'failed', error: 'timeout' }],
    ['drips its headers', (s) => drip(50, s, () => 'x'), { status: 'failed' }],
    ['drips its body', (s) => drip(50, s, () => 'x', `${OK}\r\n`), { status: 'failed', error: 'timeout' }],
  ])('and %s fails within the timeout', async (_, behave, outcome) => {
    const limitMs = 2 * SHORT_MS + 10_000;
    const { id } = await subscribe(tenant, await startHostile(behave));
    let count = 0;
    const failed = async (): Promise<void> => {
      await tenant.post(RECORDS, { title: 'x' });
      for (const delivery of await settledDeliveries(tenant, id, ++count)) {
        expect(delivery).toMatchObject({ ...outcome, attempt_count: 2 });
      }
    };
    expect(await fastest(limitMs, () => durationOf(failed))).toBeLessThan(limitMs);
  });
});

describe('a hostile receiver', () => {
  test.each<[string, (socket: Socket) => void, Json]>([
    ['resets the connection', (s) => s.resetAndDestroy(), { status: 'failed', error: 'connection broken' }],
    ['closes the connection', (s) => s.end(), { status: 'failed', error: 'connection broken' }],
    ['does not speak HTTP', (s) => s.end('hello\r\n\r\n'), { status: 'failed', error: 'invalid response' }],
    ['sends endless headers', (s) => drip(1, s, () => `X: ${'y'.repeat(9_000)}\r\n`, OK), { status: 'failed' }],
    ['truncates its answer', (s) => s.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx'), { status: 'failed' }],
    [
      'sends only 103 responses',
      (s) => drip(1, s, () => 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(9)),
      { status: 'failed', error: 'invalid response' },
    ],
  ])('that %s fails without waiting for the timeout', async (_, behave, outcome) => {
    const { id } = await subscribe(tenant, await startHostile(behave));
    await tenant.post(RECORDS, { title: 'x' });
    const [delivery] = await settledDeliveries(tenant, id);
    expect(delivery).toMatchObject({ ...outcome, attempt_count: 2 });
  });

  test('with an endless answer is read up to 64 KiB, and its status counts', async () => {
    let written = 0;
    const pour = (socket: Socket): void => {
      written += 16_384;
      if (!socket.destroyed) socket.write('z'.repeat(16_384), () => setImmediate(pour, socket));
    };
    const url = await startHostile((socket) => {
      socket.write(`${OK}\r\n`);
      pour(socket);
    });
    const { id } = await subscribe(tenant, url);
    await tenant.post(RECORDS, { title: 'x' });
    expect((await settledDeliveries(tenant, id))[0]).toMatchObject({ status: 'delivered', http_status: 200 });
    // Includes what the kernel buffers.
    expect(written).toBeLessThan(64 * 1_048_576);
  });

  test('that answers https without TLS fails', async () => {
    const { id } = await subscribe(
      tenant,
      (await startHostile((socket) => socket.end('not TLS'))).replace('http:', 'https:'),
    );
    await tenant.post(RECORDS, { title: 'x' });
    const [delivery] = await settledDeliveries(tenant, id);
    expect(delivery).toMatchObject({ status: 'failed', http_status: null });
  });
});

describe('order and concurrency', () => {
  test('deliveries of one record are sequential and in commit order; different records are parallel', async () => {
    let inFlight = 0;
    const parallel = Promise.withResolvers<void>();
    receiver.answer = async (_, response) => {
      if (++inFlight > 1) parallel.resolve();
      // The window has grown by the first successes.
      if (receiver.received.length >= 16) await parallel.promise;
      await new Promise((resolve) => setTimeout(resolve, 3 + Math.random() * 10));
      inFlight--;
      response.writeHead(200).end();
    };
    const { id } = await subscribe(tenant, receiver.url);
    const created = await Promise.all(Array.from({ length: 8 }, () => tenant.post(RECORDS, { title: '0' })));
    const ids = created.map(({ body }) => body.data.id as string);
    for (let i = 1; i <= 12; i++) {
      await Promise.all(ids.map((record) => tenant.patch(`${RECORDS}/${record}`, { title: String(i) })));
    }
    await receiver.waitFor(8 * 13);
    const byRecord = Map.groupBy(receiver.received, ({ body }) => body.record_id as string);
    for (const sent of byRecord.values()) {
      expect(sent.map(({ body }) => body.data.title)).toEqual(Array.from({ length: 13 }, (_, i) => String(i)));
      expect(overlaps(sent)).toBe(0);
    }
    expect((await settledDeliveries(tenant, id, 104)).every(({ attempt_count }) => attempt_count === 1)).toBe(true);
    await parallel.promise;
  });

  test('a change waits while an earlier one of its record is retried', async () => {
    let failures = 0;
    receiver.answer = ({ body }, response) => {
      const isFirst = body.data.title === 'first' && failures++ < 1;
      response.writeHead(isFirst ? 500 : 200).end();
    };
    await subscribe(tenant, receiver.url);
    const { id } = (await tenant.post(RECORDS, { title: 'first' })).body.data;
    await tenant.patch(`${RECORDS}/${id}`, { title: 'second' });
    const sent = await receiver.waitFor(3);
    expect(sent.map(({ body }) => body.data.title)).toEqual(['first', 'first', 'second']);
  });

  // The embedded database has one session, so these races cannot happen there.
  if (process.env.DATABASE_URL) {
    test('a delivery that is postponed while its predecessor finishes is released', async () => {
      const [reached, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      receiver.answer = async (_, response) => {
        reached.resolve();
        await answered.promise;
        response.writeHead(200).end();
      };
      const { id } = await subscribe(tenant, receiver.url);
      const record = (await tenant.post(RECORDS, { title: 'first' })).body.data;
      await reached.promise;
      await tenant.patch(`${RECORDS}/${record.id}`, { title: 'second' });
      await service.app.db.begin(async (tx) => {
        await tx.rows(sql`
          update platform.webhook_deliveries set next_at = now() + interval '1 hour'
          where subscription_id = ${id}::uuid and type = 'record.updated'`);
        answered.resolve();
        await new Promise((resolve) => setTimeout(resolve, 300));
      });
      expect((await receiver.waitFor(2)).map(({ body }) => body.data.title)).toEqual(['first', 'second']);
    });

    test('a delivery written while another process claims for its subscription is sent right after', async () => {
      const record = (await tenant.post(RECORDS, { title: 'first' })).body.data;
      const { id } = await subscribe(tenant, receiver.url);
      await service.app.db.begin(async (tx) => {
        await tx.rows(sql`select from platform.webhook_subscriptions where id = ${id}::uuid for no key update`);
        await tenant.patch(`${RECORDS}/${record.id}`, { title: 'second' });
        await new Promise((resolve) => setTimeout(resolve, 700));
      });
      expect(await receiver.waitFor(1, 15_000)).toHaveLength(1);
    });
  }

  test('receivers that do not answer delay no other receiver', async () => {
    const dead = await startHostile(() => undefined);
    for (let i = 0; i < 30; i++) await subscribe(tenant, `${dead}${i}`);
    await subscribe(tenant, receiver.url);
    let posted = 0;
    const slowest = async (): Promise<number> => {
      const delays: number[] = [];
      for (let i = 0; i < 20; i++) {
        const at = Date.now();
        await tenant.post(RECORDS, { title: String(i) });
        const sent = (await receiver.waitFor(++posted)).at(-1) as Received;
        delays.push(sent.from - at);
      }
      return Math.max(...delays);
    };
    // Waiting for an unanswered attempt would take a minute.
    expect(await fastest(2_000, slowest)).toBeLessThan(2_000);
  });
});

describe('several processes', () => {
  test('share the work and send nothing twice', async () => {
    const log = createLog({ level: 'error', write: () => undefined, readable: false });
    const app = await createApp(service.app.config, service.databaseUrl, log);
    const dispatcher = Dispatcher.start(app);
    const { id } = await subscribe(tenant, receiver.url);
    const operations = Array.from({ length: 200 }, (_, i) => ({ op: 'create', data: { title: String(i) } }));
    await tenant.post(`${RECORDS}/bulk`, { operations });
    for (let i = 0; i < 5; i++) notifyCommitted(app, { tenantId: tenant.id });
    const list = await settledDeliveries(tenant, id, 200);
    await dispatcher.stop();
    await closeApp(app);
    expect(receiver.received).toHaveLength(200);
    expect(new Set(receiver.received.map(({ body }) => body.id)).size).toBe(200);
    expect(list.every(({ status, attempt_count }) => status === 'delivered' && attempt_count === 1)).toBe(true);
  });

  test('deliver the claims of a dead process after its lease', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
    receiver.answer = (_, response) => void response.writeHead(500).end();
    await tenant.post(RECORDS, { title: 'x' });
    await settledDeliveries(tenant, id);
    receiver.answer = (_, response) => void response.writeHead(200).end();
    await service.app.db.rows(sql`
      update platform.webhook_deliveries
      set status = 'pending', completed_at = null, claim_id = gen_random_uuid(), next_at = now() + interval '300 ms'
      where subscription_id = ${id}::uuid`);
    await new Promise((resolve) => setTimeout(resolve, 350));
    notifyCommitted(service.app, { tenantId: tenant.id });
    await receiver.waitFor(3);
    expect((await settledDeliveries(tenant, id))[0]).toMatchObject({ status: 'delivered', attempt_count: 3 });
  });
});

test('a committed change has one delivery per subscription, a rolled back one has none', async () => {
  const first = await subscribe(tenant, `${receiver.url}/1`);
  const second = await subscribe(tenant, `${receiver.url}/2`);
  const operations = [
    { op: 'create', data: { title: 'x' } },
    { op: 'create', data: { nothing: 'x' } },
  ];
  expect((await tenant.post(`${RECORDS}/bulk`, { operations })).status).toBe(400);
  await tenant.post(RECORDS, { title: 'kept' });
  for (const { id } of [first, second]) expect(await settledDeliveries(tenant, id)).toHaveLength(1);
});

// The counters are those of the service's own process.
if (process.env.SERVICE_RUNTIME !== 'deno') {
  test('a delivery that has ended is counted once, and as failed if it failed for good', async () => {
    const statuses = [500, 200, 500, 500];
    receiver.answer = (_, response) => void response.writeHead(statuses.shift() ?? 200).end();
    const { id } = await subscribe(tenant, receiver.url);
    for (const count of [1, 2]) {
      await tenant.post(RECORDS, { title: 'x' });
      await settledDeliveries(tenant, id, count);
    }
    const { deliveries, failedDeliveries } = service.app.counters.of(tenant.id);
    expect({ deliveries, failedDeliveries }).toEqual({ deliveries: 2, failedDeliveries: 1 });
  });
}

test('due deliveries do not wait for a broker that does not answer', async () => {
  const broker = { ...service.app.broker, takeDue: () => new Promise(() => undefined) };
  const schedule = new Schedule({ ...service.app, broker } as unknown as App, () => undefined);
  const id = newId();
  schedule.add(id, 0);
  expect(await schedule.takeDue(1_000)).toContain(id);
  schedule.close();
});

test('due deliveries do not wait for a sweep that takes long, except for the first', async () => {
  let sweeps = 0;
  const rows = () => (sweeps++ === 0 ? Promise.resolve([]) : new Promise(() => undefined));
  const db = { ...service.app.db, slow: { ...service.app.db.slow, rows } };
  const schedule = new Schedule({ ...service.app, db } as unknown as App, () => undefined);
  await schedule.takeDue(1_000);
  const id = newId();
  schedule.add(id, 0);
  const clock = spyOn(Date, 'now').mockReturnValue(Date.now() + 2 * LIMITS.webhook.sweepMs);
  const taken = schedule.takeDue(1_000);
  clock.mockRestore();
  expect(await Promise.race([taken, delay(2_000)])).toContain(id);
  expect(sweeps).toBe(2);
  schedule.close();
});

test('retry n waits base x factor^(n-1), plus or minus 20 %', () => {
  const { config } = service.app;
  for (let n = 1; n <= 5; n++) {
    expect(retryDelayMs(config, n, 0)).toBe(Math.round(50 * 2 ** (n - 1) * 0.8));
    expect(retryDelayMs(config, n, 0.5)).toBe(50 * 2 ** (n - 1));
    expect(retryDelayMs(config, n, 1)).toBe(Math.round(50 * 2 ** (n - 1) * 1.2));
  }
});

/** How many requests began before the previous one had ended. */
function overlaps(sent: readonly Received[]): number {
  const ordered = sent.toSorted((a, b) => a.from - b.from);
  return ordered.filter((request, i) => i > 0 && request.from < (ordered[i - 1]?.to ?? 0)).length;
}
