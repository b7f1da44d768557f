// A tenant that keeps events for a shorter time than the service: its feed, history and deliveries end there, and the worker
// deletes what is older.
// Contract: history#retention.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { cleanUpOnce, warnOfFewLocks } from '../src/events/retention.ts';
import { openCursor, sealCursor } from '../src/http/changes-cursor.ts';
import { lowestIdAt } from '../src/runtime/ids.ts';
import { type Queries, sql } from '../src/runtime/sql.ts';
import { deliveriesOf, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';
const DAY_MS = 86_400_000;

let service: TestService;
let receiver: Receiver;
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32', EVENT_RETENTION_DAYS: '20' });
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver.stop();
  await service.stop();
});

async function newTenant(): Promise<TestTenant> {
  const tenant = await service.tenant();
  await createEntity(tenant, 'task', fields('title text'));
  return tenant;
}

const keep = (tenant: TestTenant, eventRetentionDays: unknown) =>
  tenant.patch('/api/tenant', { settings: { eventRetentionDays } });

/** Makes everything that the tenant has stored so far this many days older. */
async function age({ id }: TestTenant, days: number): Promise<void> {
  const ms = days * DAY_MS;
  await service.app.db.rows(sql`
    update platform.events set at = at - ${ms}::bigint * interval '1 ms' where tenant_id = ${id}::uuid`);
  const rows = await service.app.db.rows<{ id: string; at: string }>(sql`
    select id, created_at as at from platform.webhook_deliveries where tenant_id = ${id}::uuid`);
  for (const [i, row] of rows.entries()) {
    const older = lowestIdAt(new Date(Date.parse(row.at) - ms + i).toISOString());
    await service.app.db.rows(sql`
      update platform.webhook_deliveries set id = ${older}::uuid where tenant_id = ${id}::uuid and id = ${row.id}::uuid`);
  }
}

async function count(tenant: TestTenant, table: 'events' | 'webhook_deliveries'): Promise<number> {
  const rows = await service.app.db.rows<{ n: number }>(
    table === 'events'
      ? sql`select count(*)::int as n from platform.events where tenant_id = ${tenant.id}::uuid`
      : sql`select count(*)::int as n from platform.webhook_deliveries where tenant_id = ${tenant.id}::uuid`,
  );
  return rows[0]?.n ?? 0;
}

test('the setting is a number of days up to EVENT_RETENTION_DAYS, or null', async () => {
  const tenant = await newTenant();
  for (const [days, status] of [
    [1, 200],
    [20, 200],
    [21, 400],
    [0, 400],
    [1.5, 400],
    ['7', 400],
    [null, 200],
    [7, 200],
  ] as const) {
    const answer = await keep(tenant, days);
    expect([days, answer.status]).toEqual([days, status]);
    if (status === 400) expect(answer.body.error.details[0].path).toBe('settings.eventRetentionDays');
    else expect(answer.body.data.settings.eventRetentionDays).toBe(days);
  }
  expect((await tenant.get('/api/tenant')).body.data.settings.eventRetentionDays).toBe(7);
  const path = `/api/admin/platform/tenants/${tenant.slug}`;
  expect((await service.admin.patch(path, { settings: { eventRetentionDays: 21 } })).status).toBe(400);
  expect((await service.admin.patch(path, { settings: { eventRetentionDays: 2 } })).status).toBe(200);
  expect((await tenant.get('/api/tenant')).body.data.settings.eventRetentionDays).toBe(2);
});

test('feed, history, deleted records and deliveries end there, at once, and an older cursor is 410', async () => {
  const tenant = await newTenant();
  const { id: subscription } = await subscribe(tenant, receiver.url);
  const old = await createRecord(tenant, RECORDS, { title: 'old' });
  const gone = await createRecord(tenant, RECORDS, { title: 'gone' });
  await tenant.delete(`${RECORDS}/${gone.id}`);
  await settledDeliveries(tenant, subscription, 3);
  const [{ id: delivery }] = (await deliveriesOf(tenant, subscription)) as [Json];
  const before = (await tenant.get('/api/changes?since=earliest')).body.data;
  expect(before.items.length).toBe(3);
  await age(tenant, 3);
  await tenant.patch(`${RECORDS}/${old.id}`, { title: 'new' });
  await settledDeliveries(tenant, subscription, 4);
  const shown = async (): Promise<Json> => ({
    feed: (await tenant.get('/api/changes?since=earliest')).body.data.items.map(({ event }: Json) => event),
    history: (await tenant.get(`${RECORDS}/${old.id}/history`)).body.data.items.length,
    deleted: (await tenant.get(`${RECORDS}/deleted`)).body.data.items.length,
    deliveries: (await deliveriesOf(tenant, subscription)).length,
  });
  const all = {
    feed: ['record.created', 'record.created', 'record.deleted', 'record.updated'],
    history: 2,
    deleted: 1,
    deliveries: 4,
  };
  expect(await shown()).toEqual(all);
  const { rightsKey, position } = openCursor(service.app, { id: tenant.id, settings: {} }, before.nextCursor);
  const since = sealCursor(service.app, tenant.id, {
    rightsKey,
    position: { ...position, at: Date.now() - 3 * DAY_MS },
  });
  expect((await tenant.get(`/api/changes?since=${since}`)).status).toBe(200);
  expect((await keep(tenant, 2)).status).toBe(200);
  expect((await tenant.get(`/api/changes?since=${since}`)).body.error.code).toBe('GONE');
  expect(await shown()).toEqual({ feed: ['record.updated'], history: 1, deleted: 0, deliveries: 1 });
  expect((await tenant.get(`${RECORDS}/${gone.id}/history`)).status).toBe(404);
  expect((await tenant.post(`${RECORDS}/${gone.id}/restore`, { version: 1 })).status).toBe(404);
  expect((await tenant.delete(`${RECORDS}/${gone.id}?erase=true`)).status).toBe(200);
  expect((await tenant.get(`/api/webhooks/deliveries/${delivery}`)).status).toBe(404);
  await keep(tenant, null);
  expect((await shown()).deliveries).toBe(4);
});

test('the worker deletes the older events and deliveries of that tenant alone, in batches', async () => {
  const [short, long] = [await newTenant(), await newTenant()];
  await keep(short, 2);
  for (const tenant of [short, long]) {
    await subscribe(tenant, `${receiver.url}/none`, { event_types: ['record.created'] });
    for (let i = 0; i < 2; i++) {
      const operations = Array.from({ length: 1_000 }, (_, n) => ({ op: 'create', data: { title: `${n}` } }));
      expect((await tenant.post(`${RECORDS}/bulk`, { operations })).status).toBe(200);
    }
    await service.app.db.rows(sql`
      update platform.events set at = at - interval '3 days' where tenant_id = ${tenant.id}::uuid`);
    await createRecord(tenant, RECORDS, { title: 'new' });
  }
  const { signal } = new AbortController();
  const rounds: number[] = [];
  do {
    await cleanUpOnce(service.app, signal);
    rounds.push(await count(short, 'events'));
  } while ((rounds.at(-1) ?? 0) > 1 && rounds.length < 10);
  expect(rounds).toEqual([1_001, 1]);
  expect(await count(long, 'events')).toBe(2_001);
  await service.app.db.rows(sql`
    update platform.webhook_deliveries set id = overlay(id::text placing '018f0000-0000' from 1 for 13)::uuid
    where tenant_id in (${short.id}::uuid, ${long.id}::uuid) and id::text < (
      select max(id::text) from platform.webhook_deliveries where tenant_id = ${short.id}::uuid)`);
  await keep(long, 20);
  for (let i = 0; i < 3; i++) await cleanUpOnce(service.app, signal);
  expect(await count(short, 'webhook_deliveries')).toBeLessThanOrEqual(1);
}, 60_000);

test('each batch is found by its index, not by sorting all that is left', async () => {
  const tenant = await newTenant();
  await keep(tenant, 2);
  const { id } = await createRecord(tenant, RECORDS, { title: 'model' });
  // Postgres knows nothing yet of how the values are spread.
  await service.app.db.rows(sql`
    insert into platform.events (id, at, tenant_id, entity_id, entity, record_id, type, version, data, triggered_by)
    select gen_random_uuid(), now() - interval '3 days', tenant_id, entity_id, entity, record_id, type, version + n, data, 'api'
    from platform.events, generate_series(1, 5000) as n
    where tenant_id = ${tenant.id}::uuid and record_id = ${id}::uuid`);
  const plans: string[] = [];
  const explaining = (queries: Queries): Queries => ({
    ...queries,
    rows: async (statement, ...rest) => {
      if (/^\s*delete from platform\.events as/.test(statement.strings[0] ?? '')) {
        const plan = await queries.rows<{ 'QUERY PLAN': string }>(sql`explain ${statement}`);
        plans.push(plan.map((line) => line['QUERY PLAN']).join('\n'));
      }
      return queries.rows(statement, ...rest);
    },
  });
  const { app } = service;
  const { slow } = app.db;
  const begin: typeof slow.begin = (run) => slow.begin((tx) => run({ ...tx, ...explaining(tx) }));
  await cleanUpOnce(
    { ...app, db: { ...app.db, slow: { ...slow, ...explaining(slow), begin } } },
    new AbortController().signal,
  );
  expect(plans.length).toBeGreaterThan(0);
  for (const plan of plans) expect(plan).not.toMatch(/Sort|Seq Scan|Bitmap/);
});

test('the log says how many locks PostgreSQL needs for EVENT_RETENTION_DAYS, if it has fewer', async () => {
  const { app } = service;
  const warnings: string[] = [];
  const log = { ...app.log, warn: (message: string) => void warnings.push(message) };
  const warn = (eventRetentionDays: number) =>
    warnOfFewLocks({ ...app, log, config: { ...app.config, eventRetentionDays } });
  await warn(20);
  expect(warnings).toEqual([]);
  await warn(3_650);
  expect(warnings).toEqual([
    expect.stringMatching(/^EVENT_RETENTION_DAYS=3650 needs .* max_locks_per_transaction to \d+ /),
  ]);
});
