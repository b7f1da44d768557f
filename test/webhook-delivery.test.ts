// Deliveries under faults and hostile receivers: at least once, in the order of a record's changes, never two
// at once for one record, and no receiver delays another. Contract: decisions#deliveries.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import process from 'node:process';
import { type App, closeApp, createApp } from '../src/app.ts';
import { notifyCommitted } from '../src/events/publication.ts';
import { newId } from '../src/runtime/ids.ts';
import { createLog } from '../src/runtime/log.ts';
import { sql } from '../src/runtime/sql.ts';
import { Dispatcher } from '../src/webhooks/dispatch/dispatcher.ts';
import { retryDelayMs } from '../src/webhooks/dispatch/results.ts';
import { Schedule } from '../src/webhooks/dispatch/schedule.ts';
import { SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { type Received, type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { durationOf, fastest } from './support/timing.ts';

const RECORDS = '/api/entities/task/records';
/** What an attempt may take where nothing is to hold it up: more than any machine does. */
const AMPLE_MS = 60_000;
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

beforeAll(() => start(AMPLE_MS));
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
  // What still waits goes with it, and keeps no other test busy.
  await tenant.delete('/api/entities/task?confirm=task');
});

/** A receiver that does to the connection whatever it likes, once a request has begun. */
async function hostile(behave: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    // The service hangs up on it; that is what is wanted.
    socket.on('error', () => socket.destroy());
    sockets.push(socket);
    socket.once('data', () => behave(socket));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Writes something first, then again and again until the connection is gone. */
function every(ms: number, socket: Socket, text: () => string, first = ''): void {
  if (first !== '') socket.write(first);
  const timer = setInterval(() => (socket.destroyed ? clearInterval(timer) : void socket.write(text())), ms);
}

const OK = 'HTTP/1.1 200 OK\r\nConnection: close\r\n';

describe('hostile receivers that come to no end', () => {
  beforeAll(async () => {
    await service.stop();
    await start(SHORT_MS);
  });
  afterAll(async () => {
    await service.stop();
    await start(AMPLE_MS);
  });

  test.each<[string, (socket: Socket) => void, Json]>([
    ['one that never answers', () => undefined, { status: 'failed', error: 'timeout' }],
    ['one that drips its headers', (s) => every(50, s, () => 'x'), { status: 'failed' }],
    ['one that drips its body', (s) => every(50, s, () => 'x', `${OK}\r\n`), { status: 'failed', error: 'timeout' }],
  ])('%s fails, in time', async (_, behave, outcome) => {
    const inTimeMs = 2 * SHORT_MS + 10_000;
    const { id } = await subscribe(tenant, await hostile(behave));
    let count = 0;
    const failed = async (): Promise<void> => {
      await tenant.post(RECORDS, { title: 'x' });
      for (const delivery of await settledDeliveries(tenant, id, ++count)) {
        expect(delivery).toMatchObject({ ...outcome, attempt_count: 2 });
      }
    };
    expect(await fastest(inTimeMs, () => durationOf(failed))).toBeLessThan(inTimeMs);
  });
});

describe('hostile receivers', () => {
  test.each<[string, (socket: Socket) => void, Json]>([
    ['one that resets', (s) => s.resetAndDestroy(), { status: 'failed', error: 'connection broken' }],
    ['one that hangs up', (s) => s.end(), { status: 'failed', error: 'connection broken' }],
    ['one that speaks no HTTP', (s) => s.end('hello\r\n\r\n'), { status: 'failed', error: 'bad answer' }],
    ['one with endless headers', (s) => every(1, s, () => `X: ${'y'.repeat(9_000)}\r\n`, OK), { status: 'failed' }],
    ['one that ends early', (s) => s.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx'), { status: 'failed' }],
    [
      'one that only ever says 103',
      (s) => every(1, s, () => 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(9)),
      { status: 'failed', error: 'bad answer' },
    ],
  ])('%s fails without waiting for its time to run out', async (_, behave, outcome) => {
    const { id } = await subscribe(tenant, await hostile(behave));
    await tenant.post(RECORDS, { title: 'x' });
    const [delivery] = await settledDeliveries(tenant, id);
    expect(delivery).toMatchObject({ ...outcome, attempt_count: 2 });
  });

  test('of an endless answer 64 KiB are read, and it counts as what it began with', async () => {
    let written = 0;
    const pour = (socket: Socket): void => {
      written += 16_384;
      if (!socket.destroyed) socket.write('z'.repeat(16_384), () => setImmediate(pour, socket));
    };
    const url = await hostile((socket) => {
      socket.write(`${OK}\r\n`);
      pour(socket);
    });
    const { id } = await subscribe(tenant, url);
    await tenant.post(RECORDS, { title: 'x' });
    expect((await settledDeliveries(tenant, id))[0]).toMatchObject({ status: 'delivered', http_status: 200 });
    // What the kernel's buffers took besides is not read by anybody.
    expect(written).toBeLessThan(64 * 1_048_576);
  });

  test('TLS without a certificate to be trusted, or without TLS, fails', async () => {
    const { id } = await subscribe(
      tenant,
      (await hostile((socket) => socket.end('not TLS'))).replace('http:', 'https:'),
    );
    await tenant.post(RECORDS, { title: 'x' });
    const [delivery] = await settledDeliveries(tenant, id);
    expect(delivery).toMatchObject({ status: 'failed', http_status: null });
  });
});

describe('order and concurrency', () => {
  test('no two POSTs at once for one record, first attempts in commit order, many records side by side', async () => {
    let underWay = 0;
    const sideBySide = Promise.withResolvers<void>();
    receiver.answer = async (_, response) => {
      if (++underWay > 1) sideBySide.resolve();
      // A subscription earns more than one at once by its first successes.
      if (receiver.received.length >= 16) await sideBySide.promise;
      await new Promise((resolve) => setTimeout(resolve, 3 + Math.random() * 10));
      underWay--;
      response.writeHead(200).end();
    };
    const { id } = await subscribe(tenant, receiver.url);
    const made = await Promise.all(Array.from({ length: 8 }, () => tenant.post(RECORDS, { title: '0' })));
    const ids = made.map(({ body }) => body.data.id as string);
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
    await sideBySide.promise;
  });

  test('a change waits while an earlier one of its record is tried again', async () => {
    let refused = 0;
    receiver.answer = ({ body }, response) => {
      const isFirst = body.data.title === 'first' && refused++ < 1;
      response.writeHead(isFirst ? 500 : 200).end();
    };
    await subscribe(tenant, receiver.url);
    const { id } = (await tenant.post(RECORDS, { title: 'first' })).body.data;
    await tenant.patch(`${RECORDS}/${id}`, { title: 'second' });
    const sent = await receiver.waitFor(3);
    expect(sent.map(({ body }) => body.data.title)).toEqual(['first', 'first', 'second']);
  });

  // The embedded database has one session, and nothing of this can happen there.
  if (process.env.DATABASE_URL) {
    test('what is put aside while the one before it ends is roused all the same', async () => {
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

    test('what is written while another process looks at the subscription is looked at right after', async () => {
      const record = (await tenant.post(RECORDS, { title: 'first' })).body.data;
      const { id } = await subscribe(tenant, receiver.url);
      await service.app.db.begin(async (tx) => {
        await tx.rows(sql`select from platform.webhook_subscriptions where id = ${id}::uuid for no key update`);
        await tenant.patch(`${RECORDS}/${record.id}`, { title: 'unseen' });
        await new Promise((resolve) => setTimeout(resolve, 700));
      });
      expect(await receiver.waitFor(1, 15_000)).toHaveLength(1);
    });
  }

  test('dead receivers delay nobody else', async () => {
    const dead = await hostile(() => undefined);
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
    // Behind an attempt that is never answered it would be a minute.
    expect(await fastest(2_000, slowest)).toBeLessThan(2_000);
  });
});

describe('several processes', () => {
  test('share the work, and send nothing twice', async () => {
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

  test('what a process had claimed when it died is sent by another, after its lease', async () => {
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

test('a change that is rolled back has no delivery, one that is committed has one for each subscription', async () => {
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

test('what is due does not wait for a broker that does not answer', async () => {
  const broker = { ...service.app.broker, takeDue: () => new Promise(() => undefined) };
  const schedule = new Schedule({ ...service.app, broker } as unknown as App, () => undefined);
  const id = newId();
  schedule.add(id, 0);
  expect(await schedule.takeDue(1_000)).toContain(id);
  schedule.close();
});

test('retry n waits base x factor^(n-1), plus or minus a fifth', () => {
  const { config } = service.app;
  for (let n = 1; n <= 5; n++) {
    expect(retryDelayMs(config, n, 0)).toBe(Math.round(50 * 2 ** (n - 1) * 0.8));
    expect(retryDelayMs(config, n, 0.5)).toBe(50 * 2 ** (n - 1));
    expect(retryDelayMs(config, n, 1)).toBe(Math.round(50 * 2 ** (n - 1) * 1.2));
  }
});

/** Pairs of requests that were under way at the same time. */
function overlaps(sent: readonly Received[]): number {
  const ordered = sent.toSorted((a, b) => a.from - b.from);
  return ordered.filter((request, i) => i > 0 && request.from < (ordered[i - 1]?.to ?? 0)).length;
}
