// Deleting a subscription, an entity or a tenant with many deliveries, erasing a record from them, and releasing those that wait
// for the next day: in statements of at most 1,000, and without making the results of other tenants wait.
// Contract: neighbours#fair-shares.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import process from 'node:process';
import { deleteDeliveries } from '../src/events/deletion.ts';
import { eraseDeliveries } from '../src/records/erase/copies.ts';
import { newId } from '../src/runtime/ids.ts';
import { sql } from '../src/runtime/sql.ts';
import { SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createRecord } from './support/entities.ts';
import { startReceiver } from './support/receiver.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const COUNT = 2_500;
const PART = 1_000;

let service: TestService;
let tenant: TestTenant;

beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
  // How many of a tenant's deliveries each statement deletes.
  await service.app.db.exec(`
    create table deleted_by_statement (tenant_id uuid, n int);
    create function note_deleted() returns trigger language plpgsql as $$
    begin
      insert into public.deleted_by_statement select tenant_id, count(*) from deleted group by tenant_id;
      return null;
    end
    $$;
    create trigger note_deleted after delete on platform.webhook_deliveries
      referencing old table as deleted for each statement execute function note_deleted();`);
});
afterAll(async () => {
  await service.app.db.exec(`
    drop trigger note_deleted on platform.webhook_deliveries;
    drop function note_deleted();
    drop table deleted_by_statement;`);
  await service.stop();
});
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
});

/** Deliveries that are due in an hour. */
async function addDeliveries(subscriptionId: string, count: number, claimId: string | null = null): Promise<void> {
  await service.app.db.rows(sql`
    insert into platform.webhook_deliveries (subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type, next_at, claim_id)
    select ${subscriptionId}::uuid, ${tenant.id}::uuid, platform.uuidv7(), n, now(), platform.uuidv7(), 'record.created',
      now() + interval '1 hour', ${claimId}::uuid
    from generate_series(1, ${count}::int) as n`);
}

/** Of the tenant: deliveries that are left, and by how many each statement deleted them, beginning with the most. */
async function outcome(): Promise<[left: number, deleted: number[]]> {
  const left = await service.app.db.rows(sql`
    select from platform.webhook_deliveries where tenant_id = ${tenant.id}::uuid`);
  const deleted = await service.app.db.rows<{ n: number }>(sql`
    select n from deleted_by_statement where tenant_id = ${tenant.id}::uuid order by n desc`);
  return [left.length, deleted.map(({ n }) => n)];
}

test('a subscription is deleted with its deliveries in statements of at most 1,000', async () => {
  const { id } = await subscribe(tenant, 'http://127.0.0.1:59999/hook');
  await addDeliveries(id, COUNT);
  expect((await tenant.delete(`${SUBSCRIPTIONS}/${id}`)).status).toBe(200);
  expect((await tenant.get(`${SUBSCRIPTIONS}/${id}`)).status).toBe(404);
  expect(await outcome()).toEqual([0, [PART, PART, COUNT - 2 * PART]]);
});

test('an entity is deleted with the deliveries of its changes, and with unjudged changes, in statements of at most 1,000', async () => {
  const { id } = await subscribe(tenant, 'http://127.0.0.1:59999/hook');
  await addDeliveries(id, COUNT);
  const entity = await service.app.db.first<{ id: string }>(sql`
    select entity_id as id from platform.webhook_subscriptions where id = ${id}::uuid`);
  await addDeliveries(entity?.id ?? '', COUNT);
  expect((await tenant.delete('/api/entities/task')).status).toBe(200);
  const parts = [PART, PART, COUNT - 2 * PART];
  expect(await outcome()).toEqual([0, [...parts, ...parts].sort((a, b) => b - a)]);
});

test('a tenant is deleted with its deliveries in statements of at most 1,000', async () => {
  await addDeliveries((await subscribe(tenant, 'http://127.0.0.1:59999/hook')).id, COUNT);
  const path = `/api/admin/platform/tenants/${tenant.slug}?confirm=${tenant.slug}`;
  expect((await service.admin.delete(path)).status).toBe(200);
  expect(await outcome()).toEqual([0, [PART, PART, COUNT - 2 * PART]]);
});

test('deliveries in flight are deleted last, with their subscription: results that are stored together do not wait', async () => {
  const { id } = await subscribe(tenant, 'http://127.0.0.1:59999/hook');
  await addDeliveries(id, COUNT);
  await addDeliveries(id, 3, newId());
  const own = sql`tenant_id = ${tenant.id}::uuid`;
  const left = await service.app.db.slow.begin(async (tx) => {
    await deleteDeliveries(tx, own);
    return tx.rows(sql`select claim_id is not null as is_in_flight from platform.webhook_deliveries where ${own}`);
  });
  expect(left).toEqual(Array(3).fill({ is_in_flight: true }));
  expect((await tenant.delete(`${SUBSCRIPTIONS}/${id}`)).status).toBe(200);
  expect((await outcome())[0]).toBe(0);
});

// The embedded database has one session.
if (process.env.DATABASE_URL) {
  test('while a subscription is deleted, a result of it makes no other tenant’s wait, also when the record has more deliveries', async () => {
    const receiver = await startReceiver();
    const [reached, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    receiver.answer = async ({ path }, response) => {
      reached.resolve();
      if (path === '/slow') await answered.promise;
      response.writeHead(200).end();
    };
    try {
      const { id } = await subscribe(tenant, `${receiver.url}/slow`, {
        event_types: ['record.created', 'record.updated'],
      });
      const record = await createRecord(tenant, '/api/entities/task/records', { title: 'a' });
      await reached.promise;
      await tenant.patch(`/api/entities/task/records/${record.id}`, { title: 'b' });
      const other = await service.tenant();
      await other.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
      const { id: otherId } = await subscribe(other, receiver.url);
      await service.app.db.slow.begin(async (tx) => {
        await deleteDeliveries(tx, sql`id = ${id}::uuid`);
        answered.resolve();
        await receiver.waitFor(1);
        await createRecord(other, '/api/entities/task/records', { title: 'c' });
        expect(await settledDeliveries(other, otherId, 1, 20_000)).toMatchObject([{ status: 'delivered' }]);
      });
    } finally {
      await receiver.stop();
    }
  });
}

test('the values of a record are erased from its deliveries in statements of at most 1,000', async () => {
  const { id } = await subscribe(tenant, 'http://127.0.0.1:59999/hook');
  const recordId = newId();
  await addDeliveries(id, COUNT);
  await service.app.db.rows(sql`
    update platform.webhook_deliveries set body = 'a value', record_id = ${recordId}::uuid where subscription_id = ${id}::uuid`);
  const erasure = { tenantId: tenant.id, recordId, at: new Date().toISOString(), by: null, seq: null };
  const left: number[] = [];
  for (const next of await eraseDeliveries(service.app, erasure)) {
    while (await next()) {
      const row = await service.app.db.first<{ n: number }>(sql`
        select count(*)::int as n from platform.webhook_deliveries where subscription_id = ${id}::uuid and body is not null`);
      left.push(row?.n ?? -1);
    }
  }
  expect(left).toEqual([COUNT - PART, COUNT - 2 * PART, 0]);
  expect((await tenant.delete(`${SUBSCRIPTIONS}/${id}`)).status).toBe(200);
});

test('deliveries that wait for the next day are released by a higher quota in statements of at most 1,000', async () => {
  const { id } = await subscribe(tenant, 'http://127.0.0.1:59999/hook');
  await addDeliveries(id, COUNT);
  const { db } = service.app;
  // As postponed by many claims. Nothing is claimed, which would change deliveries too.
  await db.rows(sql`
    update platform.webhook_deliveries set error = 'quota_exceeded', next_at = next_at + event_seq * interval '1 ms'
    where subscription_id = ${id}::uuid`);
  await db.rows(sql`update platform.webhook_subscriptions set is_active = false where id = ${id}::uuid`);
  await db.exec(`
    create table released_by_statement (n bigint);
    create function note_released() returns trigger language plpgsql as $$
    begin
      insert into public.released_by_statement
      select count(*) from released where subscription_id = '${id}' having count(*) > 0;
      return null;
    end
    $$;
    create trigger note_released after update on platform.webhook_deliveries
      referencing new table as released for each statement execute function note_released();`);
  try {
    const path = `/api/admin/platform/tenants/${tenant.slug}`;
    expect((await service.admin.patch(path, { quotas: { deliveriesPerDay: 10_000 } })).status).toBe(200);
    const released = await db.rows<{ n: number }>(sql`select n from released_by_statement order by n desc`);
    expect(released.map(({ n }) => n)).toEqual([PART, PART, COUNT - 2 * PART]);
    const waiting = await db.rows(sql`
      select from platform.webhook_deliveries
      where subscription_id = ${id}::uuid and (error is not null or next_at > now())`);
    expect(waiting).toHaveLength(0);
  } finally {
    await db.exec(`
      drop trigger note_released on platform.webhook_deliveries;
      drop function note_released();
      drop table released_by_statement;`);
  }
});
