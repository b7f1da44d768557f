// Whatever waits to be delivered is found as soon as it may leave, long before the sweep of the database would find
// it: what a claim had no room for, what another process stood in the way of, what is due later than something else.
// Contract: decisions#deliveries.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import process from 'node:process';
import { type App, closeApp, createApp } from '../src/app.ts';
import { notifyCommitted } from '../src/events/publication.ts';
import { newId } from '../src/runtime/ids.ts';
import { createLog } from '../src/runtime/log.ts';
import { sql } from '../src/runtime/sql.ts';
import { Dispatcher } from '../src/webhooks/dispatch/dispatcher.ts';
import { Schedule } from '../src/webhooks/dispatch/schedule.ts';
import { subscribe } from './support/deliveries.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';
/** Less than the time between two sweeps. */
const SOON_MS = 15_000;

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;

beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
});
afterAll(async () => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
});
afterEach(async () => receiver.stop());

async function createMany(count: number): Promise<Json[]> {
  const operations = Array.from({ length: count }, (_, i) => ({ op: 'create', data: { title: String(i) } }));
  const answer = await tenant.post(`${RECORDS}/bulk`, { operations });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.data.results;
}

/** Holds every answer until `release` is called; `reached` resolves when a first request is there. */
function holding(): { reached: Promise<void>; release: () => void } {
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  receiver.answer = async (_, response) => {
    reached.resolve();
    await released.promise;
    response.writeHead(200).end();
  };
  return { reached: reached.promise, release: released.resolve };
}

test('what a claim had no room for leaves as soon as there is room again', async () => {
  const { reached, release } = holding();
  await subscribe(tenant, receiver.url);
  await createMany(100);
  await reached;
  release();
  expect(await receiver.waitFor(100, SOON_MS)).toHaveLength(100);
});

test('and so does what the tenant’s limit kept back', async () => {
  for (let i = 0; i < 10; i++) await subscribe(tenant, `${receiver.url}/${i}`);
  receiver.answer = async (_, response) => {
    await Bun.sleep(5);
    response.writeHead(200).end();
  };
  await createMany(60);
  expect(await receiver.waitFor(600, SOON_MS)).toHaveLength(600);
});

test('changes of many records that follow one another at once all arrive, each record’s in order', async () => {
  await subscribe(tenant, receiver.url);
  const made = await createMany(20);
  const ids = made.map(({ id }) => id);
  const change = (title: string) => Promise.all(ids.map((id) => tenant.patch(`${RECORDS}/${id}`, { title })));
  for (let i = 0; i < 5; i++) await change(`change ${i}`);
  const sent = await receiver.waitFor(120, SOON_MS);
  for (const of of Map.groupBy(sent, ({ body }) => body.record_id).values()) {
    expect(of.slice(1).map(({ body }) => body.data.title)).toEqual([0, 1, 2, 3, 4].map((i) => `change ${i}`));
  }
});

test('what is written while a new record’s delivery is refused leaves when that has ended', async () => {
  const { id } = (await tenant.post(RECORDS, { title: 'other' })).body.data;
  await subscribe(tenant, receiver.url);
  await tenant.post(RECORDS, { title: 'known' });
  await receiver.waitFor(1, SOON_MS);
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  receiver.answer = async ({ body }, response) => {
    if (body.data.title !== 'refused') return void response.writeHead(200).end();
    reached.resolve();
    await released.promise;
    response.writeHead(500).end();
  };
  await tenant.post(RECORDS, { title: 'refused' });
  await reached.promise;
  await tenant.patch(`${RECORDS}/${id}`, { title: 'one' });
  await tenant.patch(`${RECORDS}/${id}`, { title: 'two' });
  released.resolve();
  const sent = await receiver.waitFor(4, SOON_MS);
  const titles = sent.map(({ body }) => body.data.title).filter((title) => title !== 'refused');
  expect(titles).toEqual(['known', 'one', 'two']);
});

// The embedded database serves one process.
if (process.env.DATABASE_URL) {
  test('what another process has no room for, as long as this one has some on its way, leaves when that has ended', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    await tenant.post(RECORDS, { title: 'known' });
    await receiver.waitFor(1, SOON_MS);
    const log = createLog({ level: 'error', write: () => undefined, readable: false });
    const app = await createApp(service.app.config, service.databaseUrl, log);
    const looked = Promise.withResolvers<void>();
    const begin: typeof app.db.begin = (work) => app.db.begin(work).finally(looked.resolve);
    const observed = { ...app, db: { ...app.db, begin } };
    const dispatcher = Dispatcher.start(observed);
    // Only the other process hears of what is written by it.
    const write = async (): Promise<void> => {
      await app.db.rows(sql`
        insert into platform.webhook_deliveries (subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type, body)
        select subscription_id, tenant_id, gen_random_uuid(), 0, event_at, gen_random_uuid(), type, ${'{"of":"the other"}'}
        from platform.webhook_deliveries where subscription_id = ${id}::uuid limit 1`);
      notifyCommitted(observed, { tenantId: tenant.id });
    };
    const { reached, release } = holding();
    await tenant.post(RECORDS, { title: 'held' });
    await reached;
    await write();
    await looked.promise;
    release();
    const sent = await receiver.waitFor(3, SOON_MS);
    expect(sent.map(({ body }) => body.of ?? body.data.title)).toEqual(['known', 'held', 'the other']);
    await dispatcher.stop();
    await closeApp(app);
  });
}

test('a look that was asked for is not forgotten over an earlier one', async () => {
  const broker = { ...service.app.broker, takeDue: async () => [] };
  const schedule = new Schedule({ ...service.app, broker } as unknown as App, () => undefined);
  const id = newId();
  const laterMs = Date.now() + 60;
  schedule.add(id, laterMs);
  schedule.add(id, 0);
  expect(await schedule.takeDue(1_000)).toContain(id);
  while (Date.now() < laterMs) {
    if (Date.now() < laterMs - 20) expect(await schedule.takeDue(1_000)).not.toContain(id);
    await Bun.sleep(5);
  }
  expect(await schedule.takeDue(1_000)).toContain(id);
  schedule.close();
});
