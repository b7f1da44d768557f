// How much work a tenant with many subscriptions or large records can cause in one statement: the deliveries that a change
// creates and the bodies that a claim reads are bounded. Contract: neighbours#fair-shares, decisions#deliveries.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { type Sql, sql } from '../src/runtime/sql.ts';
import { findPending } from '../src/webhooks/dispatch/pending.ts';
import { SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';
/** Subscriptions per event type, for three types; a tenant has at most 1,000. */
const COUNT = 320;

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;

beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
  receiver = await startReceiver();
});
afterAll(async () => {
  await service.stop();
  await receiver.stop();
});
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
});

/** Subscribes to one event type, `count` times. Resolves to the id of the first. */
async function subscribeMany(type: string, count = COUNT): Promise<string> {
  const { id } = await subscribe(tenant, `${receiver.url}/hook`, { event_types: [type] });
  await service.app.db.rows(sql`
    insert into platform.webhook_subscriptions (id, tenant_id, entity_id, entity, event_types, url)
    select platform.uuidv7(), tenant_id, entity_id, entity, event_types, url || '/' || n
    from platform.webhook_subscriptions, generate_series(2, ${count}::int) as n
    where id = ${id}::uuid`);
  // A change of a subscription makes the definition list all of them.
  expect((await tenant.put(`${SUBSCRIPTIONS}/${id}`, { description: 'one of many' })).status).toBe(200);
  return id;
}

function bulk(op: string, rows: Json[], atomic = true) {
  return tenant.post(`${RECORDS}/bulk`, { atomic, operations: rows.map((row) => ({ op, ...row })) });
}

async function countOf(type: string, grouping: Sql): Promise<number[]> {
  const rows = await service.app.db.rows<{ n: number }>(sql`
    select count(*)::int as n from platform.events
    where tenant_id = ${tenant.id}::uuid and type = ${type}
    group by ${grouping}`);
  return rows.map(({ n }) => n);
}

async function countDeliveries(): Promise<number> {
  const row = await service.app.db.first<{ n: number }>(sql`
    select count(*)::int as n from platform.webhook_deliveries where tenant_id = ${tenant.id}::uuid`);
  return row?.n ?? 0;
}

/** Keeps the deliveries from being sent to the end. */
async function unsubscribeAll(): Promise<void> {
  await service.app.db.rows(sql`delete from platform.webhook_subscriptions where tenant_id = ${tenant.id}::uuid`);
}

const created = (count: number): Json[] => Array.from({ length: count }, (_, i) => ({ data: { title: `${i}` } }));

test('a bulk request creates its deliveries in statements of at most 1,000', async () => {
  const first = (await bulk('create', created(20))).body.data.results;
  const ids = first.map(({ id }: Json) => ({ id }));
  for (const type of ['record.created', 'record.updated', 'record.deleted']) await subscribeMany(type);
  expect((await bulk('create', created(20))).status).toBe(200);
  expect((await bulk('create', created(20), false)).status).toBe(200);
  const changes = ids.map((row: Json) => ({ ...row, data: { title: 'changed' } }));
  expect((await bulk('update', changes)).status).toBe(200);
  expect((await bulk('update', changes, false)).status).toBe(200);
  expect((await bulk('delete', ids)).status).toBe(200);
  expect(await countDeliveries()).toBe(100 * COUNT);
  await unsubscribeAll();
  const statement = sql`xmin::text, cmin::text`;
  const parts = [...Array(6).fill(3), 2];
  const sorted = async (type: string, by: Sql): Promise<number[]> => (await countOf(type, by)).sort((a, b) => b - a);
  expect(await sorted('record.created', statement)).toEqual([20, ...Array(12).fill(3), 2, 2]);
  expect(await sorted('record.updated', statement)).toEqual([...Array(12).fill(3), 2, 2]);
  expect(await sorted('record.deleted', statement)).toEqual(parts);
  // Each part that is applied by itself commits.
  expect(await sorted('record.updated', sql`xmin::text`)).toEqual([20, ...parts]);
}, 120_000);

test('an atomic request that would create more than 100,000 deliveries is a 409 that says so, and changes nothing', async () => {
  await subscribeMany('record.created');
  const refused = await bulk('create', created(320));
  expect([refused.status, refused.body.error.code]).toEqual([409, 'CONFLICT']);
  expect(refused.body.error.message).toMatch(/subscriptions of task.* more than 100,000 deliveries .*atomic: false/);
  expect((await tenant.get(RECORDS)).body.data.total).toBe(0);
  expect(await countDeliveries()).toBe(0);
  await unsubscribeAll();
});

test('a deletion that would create more than 100,000 deliveries by its cascade is a 409, and deletes nothing', async () => {
  await tenant.post('/api/entities', {
    name: 'step',
    fields: [{ key: 'task', type: 'relation', entity: 'task', onDelete: 'cascade' }],
  });
  const { id } = (await tenant.post(RECORDS, { title: 'parent' })).body.data;
  const steps = Array.from({ length: 320 }, () => ({ op: 'create', data: { task: id } }));
  expect((await tenant.post('/api/entities/step/records/bulk', { operations: steps })).status).toBe(200);
  await service.app.db.rows(sql`
    insert into platform.webhook_subscriptions (id, tenant_id, entity_id, entity, event_types, url)
    select platform.uuidv7(), d.tenant_id, d.entity_id, 'step', '{record.deleted}', ${receiver.url} || '/' || n
    from (select tenant_id, entity_id from platform.events where tenant_id = ${tenant.id}::uuid and entity = 'step' limit 1) as d,
      generate_series(1, ${COUNT - 1}::int) as n`);
  await subscribe(tenant, `${receiver.url}/hook`, { entity_name: 'step', event_types: ['record.deleted'] });
  const refused = await tenant.delete(`${RECORDS}/${id}`);
  expect([refused.status, refused.body.error.message]).toEqual([409, expect.stringContaining('100,000')]);
  expect((await tenant.get('/api/entities/step/records')).body.data.total).toBe(320);
  await unsubscribeAll();
});

test('a claim reads at most 16 MiB of events and one more, and the next ones read the rest', async () => {
  const count = 20;
  const { id } = await subscribe(tenant, `${receiver.url}/large`, { event_types: ['record.updated'] });
  const rows = (await bulk('create', created(count))).body.data.results as Json[];
  const noise = Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))).toString('hex');
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: false });
  const found = await service.app.db.slow.begin(async (tx) => {
    // Events as of records of nearly 1 MiB, with deliveries that only this transaction sees.
    await tx.rows(sql`
      with evented as (
        insert into platform.events (id, tenant_id, entity_id, entity, record_id, type, version, data, created_at, updated_at,
          triggered_by)
        select platform.uuidv7(), e.tenant_id, e.entity_id, e.entity, e.record_id, 'record.updated', 2,
          jsonb_build_object('f1', (select string_agg(${noise} || n, '') from generate_series(1, 8) as n)), now(), now(), 'api'
        from platform.events as e where e.tenant_id = ${tenant.id}::uuid and e.type = 'record.created'
        returning *
      )
      insert into platform.webhook_deliveries (subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type)
      select ${id}::uuid, tenant_id, id, seq, at, record_id, type from evented`);
    const request = {
      subscriptionId: id,
      window: count,
      limit: count,
      tenant: { id: tenant.id } as never,
      isNarrowed: false,
      isWithPrevious: false,
    };
    const { pending } = await findPending(tx, [request], 60_000);
    await tx.rows(sql`delete from platform.webhook_deliveries where subscription_id = ${id}::uuid`);
    return pending;
  });
  expect(rows).toHaveLength(count);
  expect(found).toHaveLength(count);
  const read = found.filter((row) => !row.is_unread);
  const bytes = read.map(({ data }) => JSON.stringify(data).length).reduce((a, b) => a + b, 0);
  expect(read.length).toBeGreaterThan(0);
  expect(bytes).toBeLessThanOrEqual(LIMITS.webhook.bytesPerClaim + LIMITS.recordBytesMax);
  expect(found.filter((row) => row.is_unread).every(({ data, body }) => data === null && body === null)).toBe(true);
});

test('large records reach their receiver, though a claim reads few of them', async () => {
  const { id } = await subscribe(tenant, `${receiver.url}/hook`, { event_types: ['record.created'] });
  const title = Buffer.from(crypto.getRandomValues(new Uint8Array(450_000))).toString('hex');
  for (let made = 0; made < 12; made++) {
    const created = await tenant.post(RECORDS, { title });
    expect(created.status, created.text).toBe(201);
  }
  const deliveries = await settledDeliveries(tenant, id, 12);
  expect(deliveries.map(({ status }) => status)).toEqual(Array(12).fill('delivered'));
});
