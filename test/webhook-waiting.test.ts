// A delivery that waits is sent as soon as possible, long before the sweep of the database would find it. It may wait for
// a full window, the tenant's limit, another process's claims, or an earlier scheduled time.
// Contract: decisions#deliveries.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import process from 'node:process';
import { type App, closeApp, createApp } from '../src/app.ts';
import { notifyCommitted } from '../src/events/publication.ts';
import { newId } from '../src/runtime/ids.ts';
import { createLog } from '../src/runtime/log.ts';
import { sql } from '../src/runtime/sql.ts';
import { Dispatcher } from '../src/webhooks/dispatch/dispatcher.ts';
import { InFlight } from '../src/webhooks/dispatch/in-flight.ts';
import { Schedule } from '../src/webhooks/dispatch/schedule.ts';
import { subscribe } from './support/deliveries.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';
/** Less than the sweep interval. */
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

/** Holds every answer until `release` is called; `reached` resolves at the first request. */
function holdAnswers(): { reached: Promise<void>; release: () => void } {
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  receiver.answer = async (_, response) => {
    reached.resolve();
    await released.promise;
    response.writeHead(200).end();
  };
  return { reached: reached.promise, release: released.resolve };
}

test('deliveries beyond a full window are sent as soon as there is room', async () => {
  const { reached, release } = holdAnswers();
  await subscribe(tenant, receiver.url);
  await createMany(100);
  await reached;
  release();
  expect(await receiver.waitFor(100, SOON_MS)).toHaveLength(100);
});

test('deliveries beyond the tenant’s limit are sent as soon as there is room', async () => {
  for (let i = 0; i < 10; i++) await subscribe(tenant, `${receiver.url}/${i}`);
  receiver.answer = async (_, response) => {
    await Bun.sleep(5);
    response.writeHead(200).end();
  };
  await createMany(60);
  expect(await receiver.waitFor(600, SOON_MS)).toHaveLength(600);
});

test('rapid changes of many records all arrive, in order for each record', async () => {
  await subscribe(tenant, receiver.url);
  const created = await createMany(20);
  const ids = created.map(({ id }) => id);
  const change = (title: string) => Promise.all(ids.map((id) => tenant.patch(`${RECORDS}/${id}`, { title })));
  for (let i = 0; i < 5; i++) await change(`change ${i}`);
  const sent = await receiver.waitFor(120, SOON_MS);
  for (const deliveries of Map.groupBy(sent, ({ body }) => body.record_id).values()) {
    expect(deliveries.slice(1).map(({ body }) => body.data.title)).toEqual([0, 1, 2, 3, 4].map((i) => `change ${i}`));
  }
});

test('deliveries written while another fails are sent when it has ended', async () => {
  const { id } = (await tenant.post(RECORDS, { title: 'other' })).body.data;
  await subscribe(tenant, receiver.url);
  await tenant.post(RECORDS, { title: 'known' });
  await receiver.waitFor(1, SOON_MS);
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  receiver.answer = async ({ body }, response) => {
    if (body.data.title !== 'failing') return void response.writeHead(200).end();
    reached.resolve();
    await released.promise;
    response.writeHead(500).end();
  };
  await tenant.post(RECORDS, { title: 'failing' });
  await reached.promise;
  await tenant.patch(`${RECORDS}/${id}`, { title: 'one' });
  await tenant.patch(`${RECORDS}/${id}`, { title: 'two' });
  released.resolve();
  const sent = await receiver.waitFor(4, SOON_MS);
  const titles = sent.map(({ body }) => body.data.title).filter((title) => title !== 'failing');
  expect(titles).toEqual(['known', 'one', 'two']);
});

// The embedded database serves one process.
if (process.env.DATABASE_URL) {
  test('a delivery that waits for another process’s full window is sent when that has room', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    await tenant.post(RECORDS, { title: 'known' });
    await receiver.waitFor(1, SOON_MS);
    const log = createLog({ level: 'error', write: () => undefined, readable: false });
    const app = await createApp(service.app.config, service.databaseUrl, log);
    const claimed = Promise.withResolvers<void>();
    const begin: typeof app.db.begin = (work) => app.db.begin(work).finally(claimed.resolve);
    const observed = { ...app, db: { ...app.db, begin } };
    const dispatcher = Dispatcher.start(observed);
    // Only the other process receives the commit notice.
    const write = async (): Promise<void> => {
      await app.db.rows(sql`
        insert into platform.webhook_deliveries (subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type, body)
        select subscription_id, tenant_id, gen_random_uuid(), 0, event_at, gen_random_uuid(), type, ${'{"of":"the other"}'}
        from platform.webhook_deliveries where subscription_id = ${id}::uuid limit 1`);
      notifyCommitted(observed, { tenantId: tenant.id });
    };
    const { reached, release } = holdAnswers();
    await tenant.post(RECORDS, { title: 'held' });
    await reached;
    await write();
    await claimed.promise;
    release();
    const sent = await receiver.waitFor(3, SOON_MS);
    expect(sent.map(({ body }) => body.of ?? body.data.title)).toEqual(['known', 'held', 'the other']);
    await dispatcher.stop();
    await closeApp(app);
  });
}

test('a scheduled claim is not lost to an earlier one of its subscription', async () => {
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

test('a change schedules no claim of a subscription that may have none now', async () => {
  const { id } = await subscribe(tenant, receiver.url);
  let [isClaimable, asked] = [false, 0];
  const mayClaim = (): boolean => asked++ >= 0 && isClaimable;
  const schedule = new Schedule(service.app, () => undefined, mayClaim);
  const taken = async (): Promise<string[]> => {
    schedule.onCommitted({ tenantId: tenant.id });
    return schedule.takeDue(1_000);
  };
  expect(await taken()).not.toContain(id);
  expect(asked).toBe(1);
  isClaimable = true;
  expect(await taken()).toContain(id);
  schedule.close();
});

test('some places stay free for a tenant that has none, however many tenants wait for their receivers', () => {
  const inFlight = new InFlight();
  for (let turn = 0; turn < 300; turn++) for (let t = 0; t < 20; t++) inFlight.take(`slow ${t}`, 1_000);
  expect(inFlight.admits('slow 1', 0)).toBe(false);
  for (let i = 0; i < 10; i++) expect(inFlight.take('quick', 1_000)).toBe(true);
  const large = new InFlight();
  for (let i = 0; i < 200; i++) large.take('large', 1_048_576);
  expect(large.admits('large', 1_048_576)).toBe(false);
  expect(large.take('other', 1_048_576)).toBe(true);
});
