// The tenant of a delivery is a second barrier beside its subscription: rows of another tenant under a subscription's id, which
// no code creates, are neither shown nor sent nor changed.
// Contract: decisions#deliveries.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { newId } from '../src/runtime/ids.ts';
import { sql } from '../src/runtime/sql.ts';
import { HELD_MS } from '../src/webhooks/dispatch/held.ts';
import { findOverdue } from '../src/webhooks/dispatch/overdue.ts';
import { deliveriesOf, SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';
const DAY_MS = 86_400_000;
/** Deliveries in different states: status, error, attempts, and the time until due in milliseconds. */
const STATES = [
  ['pending', null, 0, 0],
  ['pending', 'quota_exceeded', 0, 3_600_000],
  ['pending', 'held', 0, HELD_MS],
  ['pending', 'timeout', 99, -3 * DAY_MS],
  ['failed', 'timeout', 1, 0],
  ['delivered', null, 1, 0],
] as const;

let service: TestService;
let tenant: TestTenant;
let stranger: TestTenant;
let receiver: Receiver;
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
  [tenant, stranger, receiver] = await Promise.all([service.tenant(), service.tenant(), startReceiver()]);
  await createEntity(tenant, 'task', fields('title text'));
});
afterAll(async () => {
  await receiver.stop();
  await service.stop();
});

/** Rows of the stranger under the subscription's id, about the record. */
async function insertForeign(subscriptionId: string, recordId: string): Promise<void> {
  for (const [status, error, attempts, inMs] of STATES) {
    await service.app.db.rows(sql`
      insert into platform.webhook_deliveries (id, subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type, status,
        error, attempt_count, next_at, body)
      values (${newId()}::uuid, ${subscriptionId}::uuid, ${stranger.id}::uuid, ${newId()}::uuid, 0, now(), ${recordId}::uuid,
        'record.created', ${status}, ${error}, ${attempts}::int, now() + ${inMs}::bigint * interval '1 ms', '{"of":"stranger"}')`);
  }
}

const foreign = (): Promise<Json[]> =>
  service.app.db.rows<Json>(sql`
    select * from platform.webhook_deliveries where tenant_id = ${stranger.id}::uuid order by id`);

test('deliveries of another tenant under the id of a subscription are neither shown nor sent nor changed', async () => {
  const { id } = await subscribe(tenant, receiver.url);
  const record = await createRecord(tenant, RECORDS, { title: 'one' });
  const [own] = await settledDeliveries(tenant, id);
  await insertForeign(id, record.id);
  const before = await foreign();
  expect(before).toHaveLength(STATES.length);
  expect((await deliveriesOf(tenant, id)).map((delivery) => delivery.id)).toEqual([own?.id]);
  for (const each of before) {
    for (const client of [tenant, stranger]) {
      expect((await client.get(`/api/webhooks/deliveries/${each.id}`)).status).toBe(404);
      expect((await client.post(`/api/webhooks/deliveries/${each.id}/redeliver`)).status).toBe(404);
    }
  }
  const replayed = await tenant.post(`${SUBSCRIPTIONS}/${id}/replay`, { from: '2001-01-01T00:00:00Z', status: 'all' });
  expect(replayed.body.data).toEqual({ queued: 1 });
  await receiver.waitFor(2);
  // They do not delay the record's later deliveries either.
  await tenant.patch(`${RECORDS}/${record.id}`, { title: 'two' });
  await receiver.waitFor(3);
  expect(await settledDeliveries(tenant, id, 2)).toHaveLength(2);
  expect((await findOverdue(service.app)).filter(({ subscriptionId }) => subscriptionId === id)).toEqual([]);
  expect((await tenant.delete(`${RECORDS}/${record.id}?erase=true`)).status).toBe(200);
  await settledDeliveries(tenant, id, 3);
  expect(receiver.received.every(({ body }) => body.of === undefined)).toBe(true);
  expect(await foreign()).toEqual(before);
}, 60_000);
