// Changes that cannot be judged because a condition no longer fits: they wait, the subscription reports it, and once it fits
// again they are sent in order. Roles that are narrowed, widened, missing. Contract: decisions#webhooks-for-others.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { HELD, HELD_MS, HeldDeliveries } from '../src/webhooks/dispatch/held.ts';
import { deliveriesOf, judgedChanges, SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;

beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  await createEntity(tenant, 'task', fields('title text', 'cost integer'));
  await tenant.post('/api/roles', { name: 'partner', permissions: { task: ['read'] } });
});
afterEach(() => receiver.stop());

async function partner(task: Json, permissions: Json = { task: ['read'] }): Promise<void> {
  const answer = await tenant.patch('/api/roles/partner', { permissions, entities: { task } });
  if (answer.status !== 200) throw new Error(answer.text);
}

const healthOf = async (id: string): Promise<Json> => (await tenant.get(`${SUBSCRIPTIONS}/${id}`)).body.data.health;
const titles = (): string[] => receiver.received.map(({ body }) => body.data.title);

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await Bun.sleep(20);
}

test('changes wait while a condition does not fit, health says why, and they are sent in order once it does', async () => {
  const { id } = await subscribe(tenant, receiver.url, { role: 'partner', filters: 'cost > 1' });
  await partner({ excludeFields: ['cost'] });
  const record = await createRecord(tenant, RECORDS, { title: 'a', cost: 2 });
  await createRecord(tenant, RECORDS, { title: 'not meant', cost: 1 });
  await tenant.patch(`${RECORDS}/${record.id}`, { title: 'b' });
  await until(async () => (await healthOf(id)).pending === 3);
  expect(await healthOf(id)).toMatchObject({
    state: 'failing',
    lastError: 'the filters no longer fit what the subscription may see of task',
    behindSeconds: 0,
  });
  expect((await tenant.get(SUBSCRIPTIONS)).body.data[0].health).toEqual({ state: 'failing' });
  expect((await deliveriesOf(tenant, id)).map(({ status, error, next_attempt_at: at }) => [status, error, at])).toEqual(
    Array(3).fill(['pending', 'waits: a condition of the subscription no longer fits', null]),
  );
  // Even when it is sent manually, it still waits.
  const [{ id: delivery } = { id: '' }] = await deliveriesOf(tenant, id);
  await tenant.post(`/api/webhooks/deliveries/${delivery}/redeliver`);
  await until(async () => (await deliveriesOf(tenant, id)).every(({ error }) => error?.startsWith('waits')));
  expect(receiver.received).toHaveLength(0);
  await partner({});
  await receiver.waitFor(2);
  expect(titles()).toEqual(['a', 'b']);
  expect(await settledDeliveries(tenant, id, 2)).toHaveLength(2);
  expect(await healthOf(id)).toMatchObject({ state: 'ok', lastError: null, pending: 0 });
});

test('deliveries that are due when a condition ceases to fit wait too, and are sent when it fits again', async () => {
  const { id } = await subscribe(tenant, receiver.url, { role: 'partner', filters: 'cost > 1' });
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: false });
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
  receiver.answer = async (_, response) => {
    await partner({ excludeFields: ['cost'] });
    response.writeHead(500).end();
  };
  await createRecord(tenant, RECORDS, { title: 'a', cost: 2 });
  await receiver.waitFor(1);
  receiver.answer = (_, response) => void response.writeHead(200).end();
  const [delivery] = await deliveriesOf(tenant, id);
  await tenant.post(`/api/webhooks/deliveries/${delivery?.id}/redeliver`);
  await until(async () => (await deliveriesOf(tenant, id))[0]?.error?.startsWith('waits') === true);
  expect((await deliveriesOf(tenant, id))[0]).toMatchObject({ status: 'pending', attempt_count: 1 });
  // Deliveries that the subscription got stay in its log, whatever its filters are now.
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { filters: 'title = "other"' });
  await receiver.waitFor(2);
  expect((await settledDeliveries(tenant, id, 1))[0]).toMatchObject({ status: 'delivered', attempt_count: 2 });
});

test('a narrowed role sends nothing that it lost, and a deleted role holds changes back', async () => {
  const { id } = await subscribe(tenant, receiver.url, { role: 'partner' });
  expect((await tenant.patch('/api/roles/partner', { name: 'renamed' })).status).toBe(400);
  await partner({ rowFilter: 'cost > 1' });
  await createRecord(tenant, RECORDS, { title: 'hidden', cost: 1 });
  await createRecord(tenant, RECORDS, { title: 'shown', cost: 2 });
  await receiver.waitFor(1);
  await partner({}, {});
  await createRecord(tenant, RECORDS, { title: 'nothing', cost: 2 });
  await judgedChanges(service.app.db, tenant.id);
  await partner({});
  await createRecord(tenant, RECORDS, { title: 'again', cost: 1 });
  await receiver.waitFor(2);
  expect(titles()).toEqual(['shown', 'again']);
  expect(await settledDeliveries(tenant, id, 2)).toHaveLength(2);
  // As if the role had been deleted while the subscription was being created.
  await service.app.db.rows(sql`
    update platform.webhook_subscriptions set role = 'nobody' where id = ${id}::uuid`);
  await createRecord(tenant, RECORDS, { title: 'later', cost: 2 });
  await until(async () => (await healthOf(id)).lastError === 'there is no role nobody any more');
  await until(async () => (await healthOf(id)).pending === 1);
  await tenant.put(`${SUBSCRIPTIONS}/${id}`, { role: 'partner' });
  await partner({ excludeFields: ['cost'] });
  await receiver.waitFor(3);
  expect(titles().at(-1)).toBe('later');
});

test('a subscription whose changes have waited for days is disabled, and says why', async () => {
  const { id } = await subscribe(tenant, receiver.url, { role: 'partner', filters: 'cost > 1' });
  await partner({ excludeFields: ['cost'] });
  await createRecord(tenant, RECORDS, { title: 'a', cost: 2 });
  await until(async () => (await healthOf(id)).pending === 1);
  await service.app.db.rows(sql`
    update platform.webhook_deliveries set next_at = next_at - interval '6 days' where subscription_id = ${id}::uuid`);
  await partner({ excludeFields: ['cost'], rowFilter: 'cost > 0' });
  const read = async (): Promise<Json> => (await tenant.get(`${SUBSCRIPTIONS}/${id}`)).body.data;
  await until(async () => !(await read()).is_active);
  expect((await read()).disabled_reason).toBe(
    'the filters no longer fit what the subscription may see of task, for days',
  );
});

test('tenants take turns: however many subscriptions of one tenant hold changes back, those of another are judged after a slice', async () => {
  const other = await service.tenant();
  const { app } = service;
  for (const [of, count] of [
    [tenant, 5],
    [other, 1],
  ] as const) {
    if (of === other) await createEntity(of, 'task', fields('title text', 'cost integer'));
    const { id } = await createRecord(of, RECORDS, { title: 'a', cost: 2 });
    for (let n = 0; n < count; n++) await subscribe(of, `${receiver.url}/${n}`, { filters: 'cost > 1' });
    await app.db.rows(sql`
      insert into platform.webhook_deliveries
        (subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type, next_at, error)
      select s.id, s.tenant_id, e.id, e.seq, e.at, e.record_id, e.type, now() + ${HELD_MS}::bigint * interval '1 ms', ${HELD}
      from platform.webhook_subscriptions as s
      join platform.events as e on e.tenant_id = s.tenant_id and e.record_id = ${id}::uuid
      where s.tenant_id = ${of.id}::uuid`);
  }
  const { rows } = app.db;
  // The deliveries of a subscription take longer than a slice.
  app.db.rows = async (statement, budget) => {
    if (statement.strings[0]?.includes('with verdict') === true) await Bun.sleep(60);
    return rows(statement, budget);
  };
  const released: string[] = [];
  try {
    await new HeldDeliveries(app, (_, tenantId) => void released.push(tenantId)).once();
  } finally {
    app.db.rows = rows;
  }
  expect(released.filter((id) => id === tenant.id).length).toBeLessThanOrEqual(1);
  const [{ id: theirs }] = (await other.get(SUBSCRIPTIONS)).body.data;
  expect((await deliveriesOf(other, theirs))[0]?.error).toBeNull();
});
