// Webhook subscriptions and the requests they send.
// Contract: interface#webhooks, decisions#deliveries, decisions#webhook-requests.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import process from 'node:process';
import Ajv2020 from 'ajv/dist/2020.js';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { deliveriesOf, SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { durationOf, fastest } from './support/timing.ts';

const RECORDS = '/api/entities/task/records';

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;

beforeAll(async () => {
  service = await startService({
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_RETRY_BASE_MS: '40',
    WEBHOOK_RETRY_FACTOR: '2',
    WEBHOOK_MAX_RETRIES: '3',
  });
});
afterAll(async () => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
});
afterEach(async () => receiver.stop());

const hook = (): string => `${receiver.url}/hook`;

/** Holds the receiver's next request until `fail` answers it with 500; later requests are answered as before. */
function holdNext(): { reached: Promise<void>; fail: () => void } {
  const reached = Promise.withResolvers<void>();
  const failing = Promise.withResolvers<void>();
  const usual = receiver.answer;
  receiver.answer = async (_, response) => {
    receiver.answer = usual;
    reached.resolve();
    await failing.promise;
    response.writeHead(500).end();
  };
  return { reached: reached.promise, fail: failing.resolve };
}

describe('a request', () => {
  test('is one POST per change, with the flat record and the event’s id', async () => {
    const { id } = await subscribe(tenant, hook());
    const record = (await tenant.post(RECORDS, { title: 'one' })).body.data;
    const [sent] = await receiver.waitFor(1);
    expect(sent?.path).toBe('/hook');
    expect(sent?.body).toEqual({
      id: expect.stringMatching(/^evt_[0-9a-f-]{36}$/),
      event: 'record.created',
      entity: 'task',
      record_id: `rec_${record.id}`,
      data: record,
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      tenant_id: `tenant_${tenant.id}`,
    });
    const [delivery] = await settledDeliveries(tenant, id);
    expect(delivery).toMatchObject({
      event_id: sent?.body.id,
      event: 'record.created',
      status: 'delivered',
      http_status: 200,
      attempt_count: 1,
      error: null,
      next_attempt_at: null,
      completed_at: expect.any(String),
    });
    expect(sent?.headers).toMatchObject({
      'content-type': 'application/json',
      'x-svc-event': 'record.created',
      'x-svc-delivery': delivery.id,
      'x-svc-attempt': '1',
    });
    expect(sent?.headers).not.toHaveProperty('x-svc-signature');
    expect(sent?.headers).not.toHaveProperty('webhook-signature');
  });

  test('has the body and headers of the API document', async () => {
    await subscribe(tenant, hook(), { secret: 'a shared secret' });
    await tenant.post(RECORDS, { title: 'one' });
    const [sent] = await receiver.waitFor(1);
    const { body } = await service.anonymous.get('/swagger/json');
    const { post } = body.webhooks['record.created'];
    for (const { name } of post.parameters) expect(sent?.headers).toHaveProperty(name.toLowerCase());
    const payload = body.components.schemas.WebhookPayload;
    expect(Object.keys(sent?.body ?? {})).toEqual(Object.keys(payload.properties));
    const ajv = new Ajv2020({ strict: false });
    ajv.addSchema({ $id: 'doc', ...body });
    ajv.validate({ $ref: 'doc#/components/schemas/WebhookPayload' }, sent?.body);
    expect(ajv.errors).toBeNull();
  });

  test('follows the order of a record’s changes; a deletion carries the before image', async () => {
    await subscribe(tenant, hook());
    const { id } = (await tenant.post(RECORDS, { title: '0' })).body.data;
    for (let i = 1; i <= 10; i++) await tenant.patch(`${RECORDS}/${id}`, { title: String(i) });
    await tenant.delete(`${RECORDS}/${id}`);
    const sent = await receiver.waitFor(12);
    expect(sent.map(({ body }) => body.data.title)).toEqual([...Array.from({ length: 11 }, (_, i) => String(i)), '10']);
    expect(sent.at(-1)?.body.event).toBe('record.deleted');
  });

  test('is signed with the secret in both schemes', async () => {
    await subscribe(tenant, hook(), { secret: 'a secret' });
    const from = Math.floor(Date.now() / 1000);
    await tenant.post(RECORDS, { title: 'ünïcode ✓' });
    const [sent] = await receiver.waitFor(1);
    const headers = sent?.headers as Record<string, string>;
    expect(headers['x-svc-signature']).toBe(
      createHmac('sha256', 'a secret')
        .update(sent?.text ?? '')
        .digest('hex'),
    );
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${sent?.text}`;
    expect(headers['webhook-id']).toBe(sent?.body.id);
    expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', 'a secret').update(signed).digest('base64')}`);
    expect(Number(headers['webhook-timestamp'])).toBeWithin(from, Math.floor(Date.now() / 1000) + 1);
  });

  test('is sent for the subscribed events of the entity only, once per record of a bulk change', async () => {
    await tenant.post('/api/entities', { name: 'other', fields: [{ key: 'title', type: 'text' }] });
    const { id } = await subscribe(tenant, hook(), { event_types: ['record.created'] });
    await tenant.post('/api/entities/other/records', { title: 'no' });
    const operations = Array.from({ length: 20 }, (_, i) => ({ op: 'create', data: { title: `bulk ${i}` } }));
    const created = (await tenant.post(`${RECORDS}/bulk`, { operations })).body.data.results;
    await tenant.patch(`${RECORDS}/${created[0].id}`, { title: 'no' });
    await tenant.delete(`${RECORDS}/${created[1].id}`);
    await receiver.waitFor(20);
    const list = await settledDeliveries(tenant, id, 20);
    expect(list).toHaveLength(20);
    expect(new Set(receiver.received.map(({ body }) => body.event))).toEqual(new Set(['record.created']));
  });
});

test('a record written by a rule is sent as soon as one written by a caller', async () => {
  await tenant.post('/api/entities', { name: 'trail', fields: [{ key: 'title', type: 'text' }] });
  const action = { type: 'create_record', entity: 'trail', values: { title: 'written by a rule' } };
  const rule = { name: 'audit', entity: 'task', trigger: 'after_create', action };
  expect((await tenant.post('/api/rules', rule)).status).toBe(201);
  await subscribe(tenant, hook(), { entity_name: 'trail', event_types: ['record.deleted', 'record.created'] });
  let count = 0;
  const sent = async (): Promise<void> => {
    await tenant.post(RECORDS, { title: 'first' });
    // Under Deno only the service's own worker notifies its process of the commit.
    if (process.env.SERVICE_RUNTIME !== 'deno') await runRulesOnce(service.app, new AbortController().signal);
    await receiver.waitFor(++count);
  };
  // Sooner than the next sweep, which would find the delivery anyway.
  expect(await fastest(10_000, () => durationOf(sent))).toBeLessThan(10_000);
  expect(receiver.received[0]?.body).toMatchObject({ entity: 'trail', data: { title: 'written by a rule' } });
});

describe('retries', () => {
  test('repeat the same bytes until the receiver answers 2xx', async () => {
    let count = 0;
    receiver.answer = (_, response) => {
      count += 1;
      response.writeHead(count < 3 ? 503 : 204).end();
    };
    const { id } = await subscribe(tenant, hook());
    await tenant.post(RECORDS, { title: 'again' });
    const sent = await receiver.waitFor(3);
    const [delivery] = await settledDeliveries(tenant, id);
    expect(delivery).toMatchObject({ status: 'delivered', attempt_count: 3, http_status: 204 });
    expect(new Set(sent.map(({ text }) => text)).size).toBe(1);
    expect(sent.map(({ headers }) => headers['x-svc-attempt'])).toEqual(['1', '2', '3']);
  });

  test('end in failure, after which the delivery can be sent again by hand', async () => {
    receiver.answer = (_, response) => void response.writeHead(500).end();
    const { id } = await subscribe(tenant, hook());
    await tenant.post(RECORDS, { title: 'never' });
    const [failed] = await settledDeliveries(tenant, id);
    expect(failed).toMatchObject({ status: 'failed', attempt_count: 4, http_status: 500, error: 'status 500' });
    expect(receiver.received).toHaveLength(4);
    receiver.answer = (_, response) => void response.writeHead(200).end();
    const again = await tenant.post(`/api/webhooks/deliveries/${failed.id}/redeliver`);
    expect(again.status).toBe(200);
    expect(again.body.data).toMatchObject({ id: failed.id, status: 'pending' });
    await receiver.waitFor(5);
    const [delivered] = await settledDeliveries(tenant, id);
    expect(delivered).toMatchObject({ id: failed.id, status: 'delivered', attempt_count: 5, error: null });
    expect(receiver.received[4]?.text).toBe(receiver.received[0]?.text as string);
  });

  test('do not follow a redirect', async () => {
    receiver.answer = (_, response) => void response.writeHead(302, { location: `${receiver.url}/elsewhere` }).end();
    const { id } = await subscribe(tenant, hook());
    await tenant.post(RECORDS, { title: 'x' });
    const [delivery] = await settledDeliveries(tenant, id);
    expect(delivery).toMatchObject({ status: 'failed', http_status: 302 });
    expect(new Set(receiver.received.map(({ path }) => path))).toEqual(new Set(['/hook']));
  });
});

describe('subscriptions', () => {
  test('never return the secret', async () => {
    const created = await subscribe(tenant, hook(), { secret: 'a secret', description: 'words' });
    expect(created).toEqual({
      id: expect.any(String),
      entity_name: 'task',
      event_types: ['record.created', 'record.updated', 'record.deleted'],
      url: `${receiver.url}/hook`,
      description: 'words',
      health: { state: 'ok' },
      is_active: true,
      has_secret: true,
      created_at: expect.any(String),
      updated_at: expect.any(String),
    });
    const changed = (await tenant.put(`${SUBSCRIPTIONS}/${created.id}`, { secret: null })).body.data;
    expect(changed).toMatchObject({ has_secret: false, description: 'words' });
    expect((await tenant.get(SUBSCRIPTIONS)).body.data).toEqual([changed]);
    expect((await tenant.get(`${SUBSCRIPTIONS}?entity=task`)).body.data).toHaveLength(1);
    expect((await tenant.get(`${SUBSCRIPTIONS}?entity=other`)).body.data).toEqual([]);
    const deleted = await tenant.delete(`${SUBSCRIPTIONS}/${created.id}`);
    expect(deleted.body.data).toEqual({ id: created.id, deleted: true });
    expect((await tenant.get(SUBSCRIPTIONS)).body.data).toEqual([]);
    expect((await tenant.delete(`${SUBSCRIPTIONS}/${created.id}`)).status).toBe(404);
  });

  test('with the same entity, URL and events, in any order, are 409', async () => {
    await subscribe(tenant, hook(), { event_types: ['record.created', 'record.deleted'] });
    const duplicate = {
      entity_name: 'task',
      url: `${receiver.url}/hook`,
      event_types: ['record.deleted', 'record.created'],
    };
    expect((await tenant.post(SUBSCRIPTIONS, duplicate)).status).toBe(409);
    const { id } = await subscribe(tenant, hook(), { event_types: ['record.created'] });
    expect((await tenant.put(`${SUBSCRIPTIONS}/${id}`, { event_types: duplicate.event_types })).status).toBe(409);
  });

  test.each([
    [{ entity_name: 'nothing' }, 404],
    [{ event_types: [] }, 400],
    [{ event_types: ['record.created', 'rule.executed'] }, 400],
    [{ event_types: 'record.created' }, 400],
    [{ url: 'ftp://example.com' }, 400],
    [{ url: 'http://10.0.0.1/' }, 400],
    [{ url: undefined }, 400],
    [{ secret: 5 }, 400],
    [{ is_active: 'yes' }, 400],
  ])('with %j are rejected with %d', async (input, status) => {
    const good = { entity_name: 'task', event_types: ['record.created'], url: `${receiver.url}/hook` };
    expect((await tenant.post(SUBSCRIPTIONS, { ...good, ...input })).status).toBe(status);
    expect((await tenant.get(SUBSCRIPTIONS)).body.data).toEqual([]);
  });

  test('are limited to 1,000 per tenant, because each change may create a delivery for every one', async () => {
    const { id } = await subscribe(tenant, hook(), { event_types: ['record.deleted'] });
    await service.app.db.rows(sql`
      insert into platform.webhook_subscriptions (id, tenant_id, entity_id, entity, event_types, url)
      select platform.uuidv7(), tenant_id, entity_id, entity, event_types, url || '/' || n
      from platform.webhook_subscriptions, generate_series(1, 999) as n
      where id = ${id}::uuid`);
    const input = { entity_name: 'task', event_types: ['record.deleted'], url: `${receiver.url}/one-more` };
    const rejected = await tenant.post(SUBSCRIPTIONS, input);
    expect([rejected.status, rejected.body.error.code]).toEqual([409, 'CONFLICT']);
    expect((await tenant.get(SUBSCRIPTIONS)).body.data).toHaveLength(1_000);
    await tenant.delete(`${SUBSCRIPTIONS}/${id}`);
    expect((await tenant.post(SUBSCRIPTIONS, input)).status).toBe(201);
  });

  test('change only the given members, and never their entity', async () => {
    const created = await subscribe(tenant, hook(), { description: 'first' });
    const path = `${SUBSCRIPTIONS}/${created.id}`;
    const changed = await tenant.put(path, { ...created, description: 'second' });
    expect(changed.body.data).toEqual({ ...created, description: 'second', updated_at: expect.any(String) });
    const rejected = await tenant.put(path, { entity_name: 'other', description: 'third' });
    expect(rejected.status).toBe(400);
    expect(rejected.body.error.details).toMatchObject([{ path: 'entity_name' }]);
    expect((await tenant.get(SUBSCRIPTIONS)).body.data[0].description).toBe('second');
  });

  test('and deliveries of another tenant are 404', async () => {
    const { id } = await subscribe(tenant, hook());
    await tenant.post(RECORDS, { title: 'x' });
    const [delivery] = await settledDeliveries(tenant, id);
    const other = await service.tenant();
    for (const answer of [
      await other.put(`${SUBSCRIPTIONS}/${id}`, { is_active: false }),
      await other.delete(`${SUBSCRIPTIONS}/${id}`),
      await other.get(`${SUBSCRIPTIONS}/${id}/deliveries`),
      await other.post(`${SUBSCRIPTIONS}/${id}/test`),
      await other.post(`/api/webhooks/deliveries/${delivery.id}/redeliver`),
    ]) {
      expect(answer.status).toBe(404);
    }
    expect((await other.get(SUBSCRIPTIONS)).body.data).toEqual([]);
  });

  test('that are inactive get no deliveries; pending ones wait until they are active', async () => {
    const held = holdNext();
    const { id } = await subscribe(tenant, hook());
    await tenant.post(RECORDS, { title: 'waits' });
    await held.reached;
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: false });
    held.fail();
    await receiver.waitFor(1);
    await tenant.post(RECORDS, { title: 'not sent' });
    await new Promise((resolve) => setTimeout(resolve, 400));
    const [waiting, ...others] = await deliveriesOf(tenant, id);
    expect(others).toEqual([]);
    expect(waiting.status).toBe('pending');
    receiver.answer = (_, response) => void response.writeHead(200).end();
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
    const [delivered] = await settledDeliveries(tenant, id);
    expect(delivered).toMatchObject({ id: waiting.id, status: 'delivered' });
    expect(new Set(receiver.received.map(({ body }) => body.data.title))).toEqual(new Set(['waits']));
  });

  test('with a corrected URL send pending deliveries to it', async () => {
    const held = holdNext();
    const { id } = await subscribe(tenant, `${receiver.url}/broken`);
    await tenant.post(RECORDS, { title: 'pending' });
    await held.reached;
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { url: `${receiver.url}/corrected` });
    held.fail();
    const [, sent] = await receiver.waitFor(2);
    expect(sent).toMatchObject({ path: '/corrected', body: { data: { title: 'pending' } } });
  });

  test('can be tested with an example in the shape of a real delivery', async () => {
    const { id } = await subscribe(tenant, hook(), { event_types: ['record.updated'] });
    const answer = await tenant.post(`${SUBSCRIPTIONS}/${id}/test`);
    expect(answer.status).toBe(201);
    expect(answer.body.data).toMatchObject({ event: 'record.updated', status: 'pending', attempt_count: 0 });
    const [sent] = await receiver.waitFor(1);
    expect(sent?.body).toMatchObject({ event: 'record.updated', entity: 'task', data: { title: 'title' }, test: true });
    expect(sent?.body.data.id).toBe(sent?.body.record_id.slice('rec_'.length));
  });

  test('list their deliveries newest first, up to `limit`', async () => {
    const { id } = await subscribe(tenant, hook());
    for (const title of ['1', '2', '3']) {
      await tenant.post(RECORDS, { title });
      // Deliveries of the same millisecond have no defined order.
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const all = await settledDeliveries(tenant, id, 3);
    expect(
      (await tenant.get(`${SUBSCRIPTIONS}/${id}/deliveries?limit=2`)).body.data.map((delivery: Json) => delivery.id),
    ).toEqual([all[0].id, all[1].id]);
    expect(all.map(({ created_at }) => created_at)).toEqual(
      all
        .map(({ created_at }) => created_at)
        .toSorted()
        .reverse(),
    );
    for (const limit of ['0', '501', 'x']) {
      expect((await tenant.get(`${SUBSCRIPTIONS}/${id}/deliveries?limit=${limit}`)).status).toBe(400);
    }
  });

  test('are deleted with their entity', async () => {
    await subscribe(tenant, hook());
    await tenant.delete('/api/entities/task?confirm=task');
    expect((await tenant.get(SUBSCRIPTIONS)).body.data).toEqual([]);
  });
});
