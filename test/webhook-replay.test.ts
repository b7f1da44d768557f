// A replay sends the deliveries of a span of time again: in order, with the same ids, behind those of new changes.
// Contract: decisions#replay.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { sql } from '../src/runtime/sql.ts';
import { inTurn } from '../src/runtime/tenant-slices.ts';
import { SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Received, type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';
const LONG_AGO = '2001-01-01T00:00:00Z';

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;

beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32', WEBHOOK_MAX_RETRIES: '0' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  await createEntity(tenant, 'task', fields('title text'));
});
afterEach(() => receiver.stop());

const replay = (id: string, body: Json) => tenant.post(`${SUBSCRIPTIONS}/${id}/replay`, body);
const titles = (from = 0): string[] => receiver.received.slice(from).map(({ body }) => body.data.title);

async function createMany(count: number): Promise<void> {
  const operations = Array.from({ length: count }, (_, i) => ({ op: 'create', data: { title: String(i) } }));
  expect((await tenant.post(`${RECORDS}/bulk`, { operations })).status).toBe(200);
}

test('all deliveries of a span are sent again, in order for each record and with the same event ids', async () => {
  const { id } = await subscribe(tenant, receiver.url);
  const record = await createRecord(tenant, RECORDS, { title: '0' });
  for (let i = 1; i < 150; i++) await tenant.patch(`${RECORDS}/${record.id}`, { title: String(i) });
  await settledDeliveries(tenant, id, 150);
  const answer = await replay(id, { from: LONG_AGO, status: 'all' });
  expect([answer.status, answer.body.data]).toEqual([200, { queued: 150 }]);
  const sent = await receiver.waitFor(300);
  expect(titles(150)).toEqual(Array.from({ length: 150 }, (_, i) => String(i)));
  expect(sent.slice(150).map(({ body }) => body.id)).toEqual(sent.slice(0, 150).map(({ body }) => body.id));
  expect(await settledDeliveries(tenant, id, 150)).toHaveLength(150);
});

test('only failed deliveries, on request, and only of the span', async () => {
  receiver.answer = ({ body }, response) => void response.writeHead(body.data.title === 'good' ? 200 : 500).end();
  const { id } = await subscribe(tenant, receiver.url);
  for (const title of ['good', 'bad', 'worse']) {
    await createRecord(tenant, RECORDS, { title });
    await Bun.sleep(5);
  }
  const deliveries = await settledDeliveries(tenant, id, 3);
  receiver.answer = (_, response) => void response.writeHead(200).end();
  const worse = receiver.received.find(({ body }) => body.data.title === 'worse') as Received;
  expect((await replay(id, { from: LONG_AGO, to: worse.body.timestamp, status: 'failed' })).body.data).toEqual({
    queued: 1,
  });
  await receiver.waitFor(4);
  expect(titles(3)).toEqual(['bad']);
  await settledDeliveries(tenant, id, 3);
  expect((await replay(id, { from: '2101-01-01', status: 'all' })).body.data).toEqual({ queued: 0 });
  const failed = (await settledDeliveries(tenant, id, 3)).filter(({ status }) => status === 'failed');
  expect(failed.map((delivery) => delivery.id)).toEqual([deliveries[0]?.id]);
});

test('new changes wait for a few replayed ones at most, and another tenant’s for none', async () => {
  const { id } = await subscribe(tenant, receiver.url);
  await createMany(1_000);
  await settledOf(id);
  const other = await service.tenant();
  await createEntity(other, 'task', fields('title text'));
  const theirs = await startReceiver();
  await subscribe(other, theirs.url);
  receiver.answer = async (_, response) => {
    await Bun.sleep(20);
    response.writeHead(200).end();
  };
  expect((await replay(id, { from: LONG_AGO, status: 'all' })).body.data).toEqual({ queued: 1_000 });
  await receiver.waitFor(1_050);
  const before = receiver.received.length;
  await createRecord(tenant, RECORDS, { title: 'new' });
  await createRecord(other, RECORDS, { title: 'theirs' });
  await theirs.waitFor(1);
  while (!titles(before).includes('new')) await Bun.sleep(5);
  expect(receiver.received.length).toBeLessThan(1_900);
  await receiver.waitFor(2_001);
  await theirs.stop();
});

/** Waits until no delivery is pending, of any number. */
async function settledOf(id: string): Promise<void> {
  while ((await tenant.get(`${SUBSCRIPTIONS}/${id}/deliveries?status=pending&limit=1`)).body.data.length > 0)
    await Bun.sleep(20);
}

test('a replay that fails delays neither another of its tenant nor another tenant’s', async () => {
  const [first, second] = [await subscribe(tenant, receiver.url), await subscribe(tenant, `${receiver.url}/second`)];
  await createRecord(tenant, RECORDS, { title: 'mine' });
  const other = await service.tenant();
  await createEntity(other, 'task', fields('title text'));
  const theirs = await startReceiver();
  const { id } = await subscribe(other, theirs.url);
  await createRecord(other, RECORDS, { title: 'theirs' });
  await theirs.waitFor(1);
  await receiver.waitFor(2);
  await Promise.all([settledDeliveries(tenant, second.id, 1), settledDeliveries(other, id, 1)]);
  // A position that no version of the service writes.
  await service.app.db.rows(sql`
    insert into platform.webhook_replays (subscription_id, tenant_id, from_at, to_at, since, is_of_failed, position, last_id)
    select id, tenant_id, now(), now(), '{}', false, id, id from platform.webhook_subscriptions
    where id = ${first.id}::uuid`);
  expect((await replay(second.id, { from: LONG_AGO, status: 'all' })).body.data).toEqual({ queued: 1 });
  const replayed = await other.post(`${SUBSCRIPTIONS}/${id}/replay`, { from: LONG_AGO, status: 'all' });
  expect(replayed.body.data).toEqual({ queued: 1 });
  await theirs.waitFor(2);
  await receiver.waitFor(3);
  await service.app.db.rows(sql`
    delete from platform.webhook_replays where subscription_id = ${first.id}::uuid`);
  await theirs.stop();
});

test('the replays of a tenant take turns: after the one that was served last come the later ones, then the others', () => {
  const replays = ['a', 'b', 'c'].map((subscription_id) => ({ subscription_id }));
  const order = (latest?: string) =>
    inTurn(replays, ({ subscription_id: id }) => id, latest).map(({ subscription_id: id }) => id);
  expect([order(), order('a'), order('b'), order('c')].map((ids) => ids.join(''))).toEqual([
    'abc',
    'bca',
    'cab',
    'abc',
  ]);
});

test('one replay of a subscription at a time, of an active one, within the limit', async () => {
  const { id } = await subscribe(tenant, receiver.url);
  await createMany(3);
  await settledDeliveries(tenant, id, 3);
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: false });
  const refusal = async (body: Json): Promise<Json> => {
    const { status, body: answer } = await replay(id, body);
    return [status, answer.error?.message];
  };
  expect(await refusal({ from: LONG_AGO, status: 'all' })).toEqual([409, 'the subscription is inactive']);
  const waiting = Promise.withResolvers<void>();
  receiver.answer = async (_, response) => {
    await waiting.promise;
    response.writeHead(200).end();
  };
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
  await service.app.db.rows(sql`
    insert into platform.webhook_replays (subscription_id, tenant_id, from_at, to_at, is_of_failed, position, last_id)
    values (${id}::uuid, ${service.app.db.id}::uuid, now(), now() + interval '1 day', false, ${id}::uuid, ${id}::uuid)`);
  // A replay with nothing to send ends soon, so this one may come too late.
  const second = await refusal({ from: LONG_AGO, status: 'all' });
  expect([
    [409, 'the subscription is being replayed already'],
    [200, undefined],
  ]).toContainEqual(second);
  waiting.resolve();
  expect(LIMITS.webhook.replayMax).toBe(100_000);
  for (const [body, path] of [
    [{ from: 'yesterday', status: 'all' }, 'from'],
    [{ from: LONG_AGO, to: LONG_AGO, status: 'all' }, 'to'],
    [{ from: LONG_AGO, status: 'pending' }, 'status'],
    [{ status: 'all' }, 'from'],
  ] as const) {
    const answer = await replay(id, body);
    expect([answer.status, answer.body.error.details[0].path]).toEqual([400, path]);
  }
  expect(
    (await (await service.tenant()).post(`${SUBSCRIPTIONS}/${id}/replay`, { from: LONG_AGO, status: 'all' })).status,
  ).toBe(404);
});

test('since a cursor of the feed: the deliveries of later changes, each once', async () => {
  const { id } = await subscribe(tenant, receiver.url, { include: ['cursor'] });
  for (const title of ['a', 'b']) await createRecord(tenant, RECORDS, { title });
  await settledDeliveries(tenant, id, 2);
  const { nextCursor } = (await tenant.get('/api/changes')).body.data;
  for (const title of ['c', 'd']) await createRecord(tenant, RECORDS, { title });
  await settledDeliveries(tenant, id, 4);
  const cursorOf = (title: string): string =>
    receiver.received.find(({ body }) => body.data.title === title)?.body.cursor;
  for (const [since, later] of [
    [nextCursor, ['c', 'd']],
    [cursorOf('a'), ['b', 'c', 'd']],
    [cursorOf('c'), ['d']],
    [cursorOf('d'), []],
    ['earliest', ['a', 'b', 'c', 'd']],
  ] as [string, string[]][]) {
    const before = receiver.received.length;
    // The previous replay ends a moment after its last delivery.
    let answer = await replay(id, { since, status: 'all' });
    for (; answer.status === 409; answer = await replay(id, { since, status: 'all' })) await Bun.sleep(20);
    expect([answer.status, answer.body.data]).toEqual([200, { queued: later.length }]);
    await receiver.waitFor(before + later.length);
    await settledDeliveries(tenant, id, 4);
    expect(titles(before).sort()).toEqual(later);
  }
  expect((await replay(id, { since: cursorOf('a'), status: 'failed' })).body.data).toEqual({ queued: 0 });
});

test('since a cursor includes changes that were written earlier and committed later', async () => {
  const { id } = await subscribe(tenant, receiver.url);
  const titlesOfAll = Array.from({ length: 40 }, (_, i) => String(i));
  const cursors: string[] = [];
  await Promise.all(
    titlesOfAll.map(async (title) => {
      cursors.push((await tenant.get('/api/changes')).body.data.nextCursor);
      await createRecord(tenant, RECORDS, { title });
    }),
  );
  await settledDeliveries(tenant, id, 40);
  for (const since of cursors.filter((_, i) => i % 8 === 0)) {
    const before = receiver.received.length;
    const later = (await tenant.get(`/api/changes?since=${since}&limit=1000`)).body.data.items;
    let answer = await replay(id, { since, status: 'all' });
    for (; answer.status === 409; answer = await replay(id, { since, status: 'all' })) await Bun.sleep(20);
    expect(answer.body.data).toEqual({ queued: later.length });
    const sent = (await receiver.waitFor(before + later.length)).slice(before);
    expect(sent.map(({ body }) => body.id).sort()).toEqual(later.map((item: Json) => item.id).sort());
    await settledDeliveries(tenant, id, 40);
  }
});

test('a replay has a cursor or a first time, one of the tenant’s own, and nothing else', async () => {
  const { id } = await subscribe(tenant, receiver.url);
  const own = (await tenant.get('/api/changes')).body.data.nextCursor;
  const foreign = (await (await service.tenant()).get('/api/changes')).body.data.nextCursor;
  for (const [body, status, path] of [
    [{ since: own, from: LONG_AGO, status: 'all' }, 400, 'from'],
    [{ since: 'nonsense', status: 'all' }, 400, 'since'],
    [{ since: '', status: 'all' }, 400, 'since'],
    [{ since: own, to: 'tomorrow', status: 'all' }, 400, 'to'],
    [{ since: foreign, status: 'all' }, 403, undefined],
  ] as const) {
    const answer = await replay(id, body);
    expect([answer.status, answer.body.error.details?.[0].path]).toEqual([status, path]);
  }
});
