// Webhooks that can be handed to somebody else: records as a role sees them, some records, some fields, all entities; secrets
// that overlap, and tests that are marked. Contract: decisions#webhooks-for-others.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import process from 'node:process';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { Judge } from '../src/webhooks/audience.ts';
import { deliveriesOf, judgedChanges, SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields, tenantWithEntities } from './support/entities.ts';
import { type Received, type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { sentWhileLocked } from './support/tenant-database.ts';
import { within } from './support/timing.ts';

const RECORDS = '/api/entities/task/records';

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;

beforeAll(async () => {
  service = await startService({
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_RETRY_BASE_MS: '100',
    WEBHOOK_RETRY_FACTOR: '1',
    WEBHOOK_MAX_RETRIES: '3',
  });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  await createEntity(tenant, 'task', fields('title text', 'stage text', 'cost integer', 'due datetime'));
});
afterEach(() => receiver.stop());

/** Adds or changes the role `partner`. */
async function partner(entities: Json, permissions: Json = { task: ['read'] }): Promise<void> {
  const made = await tenant.post('/api/roles', { name: 'partner', permissions, entities });
  if (made.status === 201) return;
  const changed = await tenant.patch('/api/roles/partner', { permissions, entities });
  if (changed.status !== 200) throw new Error(`no role: ${changed.text}`);
}

const judged = (): Promise<void> => judgedChanges(service.app.db, tenant.id);

const titles = (sent: readonly Received[]): string[] => sent.map(({ body }) => body.data.title ?? null);
/** Changes that everybody may see, after those before it: once it has arrived, nothing else will. */
async function last(count: number, values: Json = {}): Promise<Received[]> {
  await createRecord(tenant, RECORDS, { title: 'last', ...values });
  return receiver.waitFor(count);
}

async function refused(input: Json): Promise<Json> {
  const all = { entity_name: 'task', event_types: ['record.created'], url: receiver.url, ...input };
  const answer = await tenant.post(SUBSCRIPTIONS, all);
  return [answer.status, answer.body.error?.details ?? answer.body.data];
}

describe('a subscription with a role', () => {
  test('sends the rows and fields that the role sees', async () => {
    await partner({ task: { excludeFields: ['cost'], rowFilter: 'stage = "open"' } });
    const { id, role } = await subscribe(tenant, receiver.url, { role: 'partner' });
    expect(role).toBe('partner');
    const open = await createRecord(tenant, RECORDS, { title: 'open', stage: 'open', cost: 7 });
    await createRecord(tenant, RECORDS, { title: 'hidden', stage: 'draft' });
    // The image after the change decides; for a deletion, the image before it.
    await tenant.patch(`${RECORDS}/${open.id}`, { title: 'closed', stage: 'closed' });
    await tenant.patch(`${RECORDS}/${open.id}`, { title: 'open again', stage: 'open' });
    await tenant.delete(`${RECORDS}/${open.id}`);
    const sent = await last(4, { stage: 'open' });
    // Different records have no order among each other.
    const ofOne = sent.filter(({ body }) => body.data.title !== 'last');
    expect(ofOne.map(({ body }) => [body.event, body.data.title])).toEqual([
      ['record.created', 'open'],
      ['record.updated', 'open again'],
      ['record.deleted', 'open again'],
    ]);
    for (const { body } of sent) expect(Object.keys(body.data)).not.toContain('cost');
    expect(await settledDeliveries(tenant, id, 4)).toHaveLength(4);
    await judged();
    const left = await service.app.db.rows(sql`
      select from platform.webhook_deliveries where tenant_id = ${tenant.id}::uuid and status = 'pending'`);
    expect(left).toHaveLength(0);
  });

  test('sends nothing of an entity that the role may not read, and the rest in one batch', async () => {
    await createEntity(tenant, 'secret', fields('title text'));
    await partner({ task: { rowFilter: 'cost > 10' } });
    await subscribe(tenant, receiver.url, { role: 'partner', entity_name: '*' });
    await createRecord(tenant, '/api/entities/secret/records', { title: 'secret' });
    const operations = Array.from({ length: 50 }, (_, i) => ({ op: 'create', data: { title: `${i}`, cost: i } }));
    await tenant.post(`${RECORDS}/bulk`, { operations });
    const sent = await last(40, { cost: 11 });
    expect(new Set(titles(sent)).size).toBe(40);
    expect(sent.every(({ body }) => body.data.title === 'last' || body.data.cost > 10)).toBe(true);
  });

  test('obeys the rights that the role has at the time of sending, not at the time of the change', async () => {
    await partner({});
    const { id } = await subscribe(tenant, receiver.url, { role: 'partner' });
    receiver.answer = async (_, response) => {
      await partner({ task: { excludeFields: ['title'] } });
      response.writeHead(receiver.received.length === 0 ? 500 : 200).end();
    };
    await createRecord(tenant, RECORDS, { title: 'seen', stage: 'x' });
    const [first, second] = await receiver.waitFor(2);
    expect(first?.body.data).toMatchObject({ title: 'seen', stage: 'x' });
    expect(second?.body.data).not.toHaveProperty('title');
    expect(second?.body.data).toMatchObject({ stage: 'x' });
    expect(second?.body.id).toBe(first?.body.id);
    const [delivery] = await settledDeliveries(tenant, id, 1);
    const detail = (await tenant.get(`/api/webhooks/deliveries/${delivery?.id}`)).body.data;
    expect(detail.body).toBe(second?.text as string);
  });

  test('does not send records that the role has lost since, and does not count them against the receiver', async () => {
    await partner({});
    const { id } = await subscribe(tenant, receiver.url, { role: 'partner' });
    receiver.answer = async (_, response) => {
      await partner({}, {});
      response.writeHead(500).end();
    };
    await createRecord(tenant, RECORDS, { title: 'seen' });
    const [delivery] = await settledDeliveries(tenant, id, 1);
    expect(delivery).toMatchObject({ status: 'failed', error: 'not sent: the role may not see this' });
    expect(receiver.received).toHaveLength(1);
    expect((await tenant.get(`${SUBSCRIPTIONS}/${id}`)).body.data.health.lastError).toBe('status 500');
    // A role that grants nothing gets nothing.
    receiver.answer = (_, response) => void response.writeHead(200).end();
    await createRecord(tenant, RECORDS, { title: 'unseen' });
    await judged();
    await partner({});
    expect(titles(await last(2))).toEqual(['seen', 'last']);
  });

  test('a row filter uses the time of the change, and a related record as it is now', async () => {
    await createEntity(tenant, 'team', fields('name_of text'));
    await createEntity(tenant, 'job', [
      ...fields('title text', 'at datetime'),
      { key: 'team', type: 'relation', entity: 'team' },
    ]);
    const team = await createRecord(tenant, '/api/entities/team/records', { name_of: 'north' });
    await partner({ job: { rowFilter: 'team.name_of = "north" AND at > $now-1d' } }, { job: ['read'] });
    await subscribe(tenant, receiver.url, { role: 'partner', entity_name: 'job' });
    const jobs = '/api/entities/job/records';
    await createRecord(tenant, jobs, { title: 'old', at: '2001-01-01T00:00:00Z', team: team.id });
    await createRecord(tenant, jobs, { title: 'no team', at: '2101-01-01T00:00:00Z' });
    await createRecord(tenant, jobs, { title: 'mine', at: '2101-01-01T00:00:00Z', team: team.id });
    expect(titles(await receiver.waitFor(1))).toEqual(['mine']);
  });

  test('does not send changes that a row filter can no longer judge, because its field got another type since', async () => {
    await partner({});
    receiver.answer = (_, response) => void response.writeHead(500).end();
    const { id } = await subscribe(tenant, receiver.url, { role: 'partner' });
    await createRecord(tenant, RECORDS, { title: 'hidden', stage: 'secret' });
    await settledDeliveries(tenant, id, 1);
    const retyped = await tenant.patch('/api/entities/task/fields/stage', {
      type: 'select',
      options: ['secret', 'open'],
    });
    expect(retyped.status).toBe(200);
    await partner({ task: { rowFilter: 'stage != "secret"' } });
    const before = receiver.received.length;
    const from = '2001-01-01T00:00:00Z';
    expect((await tenant.post(`${SUBSCRIPTIONS}/${id}/replay`, { from, status: 'all' })).body.data.queued).toBe(1);
    // The replay makes it due, and only then is it judged.
    const why = async (): Promise<string | null> => (await settledDeliveries(tenant, id, 1))[0]?.error ?? null;
    while ((await why()) === 'status 500') await Bun.sleep(20);
    expect(await why()).toBe('not sent: the role may not see this');
    receiver.answer = (_, response) => void response.writeHead(200).end();
    expect(titles(await last(before + 1)).slice(before)).toEqual(['last']);
  });

  test('must name a role of the tenant, which cannot be deleted then', async () => {
    expect(await refused({ role: 'nobody' })).toEqual([400, [{ path: 'role', message: 'is no role of this tenant' }]]);
    await partner({});
    const { id } = await subscribe(tenant, receiver.url, { role: 'partner' });
    const kept = await tenant.delete('/api/roles/partner');
    expect([kept.status, kept.body.error.message]).toEqual([
      409,
      'the role partner is in use: webhook subscriptions: 1',
    ]);
    expect((await tenant.put(`${SUBSCRIPTIONS}/${id}`, { role: null })).body.data).not.toHaveProperty('role');
    expect((await tenant.delete('/api/roles/partner')).status).toBe(200);
  });
});

describe('a subscription with filters', () => {
  test('sends changes that match, and makes no delivery for others', async () => {
    const { id } = await subscribe(tenant, receiver.url, { filters: 'stage = "won" AND cost >= 5' });
    await createRecord(tenant, RECORDS, { title: 'small', stage: 'won', cost: 4 });
    const record = await createRecord(tenant, RECORDS, { title: 'lost', stage: 'lost', cost: 9 });
    await tenant.patch(`${RECORDS}/${record.id}`, { title: 'won', stage: 'won' });
    expect(titles(await last(2, { stage: 'won', cost: 5 }))).toEqual(['won', 'last']);
    expect(await deliveriesOf(tenant, id)).toHaveLength(2);
    // Added and removed again.
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { filters: 'title = "other"' });
    await createRecord(tenant, RECORDS, { title: 'x', stage: 'won', cost: 5 });
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { filters: null });
    expect(titles(await last(3))).toEqual(['won', 'last', 'last']);
  });

  test('refuses a condition that follows a relation, is hidden from the role, or is for several entities', async () => {
    await createEntity(tenant, 'team', fields('name_of text'));
    await tenant.post('/api/entities/task/fields', { key: 'team', type: 'relation', entity: 'team' });
    const [status, details] = await refused({ filters: 'team.name_of = "north"' });
    expect([status, details[0].path]).toEqual([400, 'filters']);
    expect(details[0].message).toContain('must not follow a relation');
    await partner({ task: { excludeFields: ['cost'] } });
    expect((await refused({ role: 'partner', filters: 'cost > 1' }))[0]).toBe(400);
    expect(await refused({ entity_name: '*', filters: 'title = "x"', fields: ['title'] })).toEqual([
      400,
      [
        { path: 'filters', message: 'needs exactly one entity' },
        { path: 'fields', message: 'needs exactly one entity' },
      ],
    ]);
    expect((await refused({ filters: 'nonsense !' }))[0]).toBe(400);
  });

  test('a field that a condition names must stay', async () => {
    const { id } = await subscribe(tenant, receiver.url, { filters: 'stage = "won"' });
    const dropped = await tenant.delete('/api/entities/task/fields/stage?confirm=stage');
    expect([dropped.status, dropped.body.error.message]).toEqual([
      409,
      `stage is used by webhook ${id}; change these first`,
    ]);
  });

  // The embedded database has one session, so nothing runs concurrently.
  if (process.env.DATABASE_URL) {
    test.each(['made', 'changed'])('%s while a field is renamed, it names the field by its new key', async (how) => {
      const { id } = await subscribe(tenant, receiver.url, {});
      const filters = 'stage = "won"';
      const input = { entity_name: 'task', event_types: ['record.created'], url: `${receiver.url}/other`, filters };
      const send = () =>
        how === 'made' ? tenant.post(SUBSCRIPTIONS, input) : tenant.put(`${SUBSCRIPTIONS}/${id}`, { filters });
      const { status, body } = await sentWhileLocked(service, tenant, send, async (tx) => {
        await tx.rows(sql`
          update ${identifier(schemaOf(tenant.id), 'field_definitions')} set key = 'step' where key = 'stage'`);
      });
      expect([status, body.error?.details?.[0].path]).toEqual([400, 'filters']);
    });
  }

  test('changes of one record arrive in their order', async () => {
    await subscribe(tenant, receiver.url, { filters: 'cost >= 0' });
    const record = await createRecord(tenant, RECORDS, { title: 'a', cost: 0 });
    for (let i = 1; i < 40; i++) await tenant.patch(`${RECORDS}/${record.id}`, { cost: i % 4 === 3 ? -i : i });
    const sent = await receiver.waitFor(30);
    const costs = sent.map(({ body }) => body.data.cost);
    expect(costs).toEqual(Array.from({ length: 40 }, (_, i) => i).filter((i) => i % 4 !== 3));
  });
});

describe('fields and entities', () => {
  test('a subscription with fields sends only these, under their keys of today', async () => {
    const { id } = await subscribe(tenant, receiver.url, { fields: ['title', 'cost'] });
    const record = await createRecord(tenant, RECORDS, { title: 'a', stage: 'x', cost: 1 });
    const [first] = await receiver.waitFor(1);
    const system = ['id', 'entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];
    expect(Object.keys(first?.body.data).sort()).toEqual([...system, 'title', 'cost'].sort());
    await tenant.patch('/api/entities/task/fields/cost', { key: 'price' });
    expect((await tenant.get(`${SUBSCRIPTIONS}/${id}`)).body.data.fields).toEqual(['title', 'price']);
    await tenant.patch(`${RECORDS}/${record.id}`, { price: 2 });
    const [, second] = await receiver.waitFor(2);
    expect(second?.body.data).toMatchObject({ title: 'a', price: 2 });
    const [status, details] = await refused({ fields: ['title', 'nothing'] });
    expect([status, details[0].path]).toEqual([400, 'fields.1']);
  });

  test('a subscription to * gets all entities, also later ones', async () => {
    const { id, entity_name } = await subscribe(tenant, receiver.url, { entity_name: '*' });
    expect(entity_name).toBe('*');
    await createRecord(tenant, RECORDS, { title: 'one' });
    await createEntity(tenant, 'later', fields('title text'));
    await createRecord(tenant, '/api/entities/later/records', { title: 'two' });
    const operations = [{ op: 'create', data: { title: 'three' } }];
    await tenant.post('/api/entities/later/records/bulk', { operations });
    expect(titles(await receiver.waitFor(3)).sort()).toEqual(['one', 'three', 'two']);
    expect((await tenant.get(`${SUBSCRIPTIONS}?entity=*`)).body.data).toHaveLength(1);
    expect(
      (
        await tenant.post(SUBSCRIPTIONS, {
          entity_name: '*',
          event_types: ['record.created', 'record.updated', 'record.deleted'],
          url: receiver.url,
        })
      ).status,
    ).toBe(409);
    await tenant.delete('/api/entities/later?confirm=later');
    expect((await tenant.delete(`${SUBSCRIPTIONS}/${id}`)).status).toBe(200);
    await createRecord(tenant, RECORDS, { title: 'four' });
    expect(receiver.received).toHaveLength(3);
  });

  test('a subscription that uses none of this is shown and sent as before', async () => {
    const plain = await subscribe(tenant, receiver.url);
    expect(Object.keys(plain).sort()).toEqual(
      'created_at description entity_name event_types has_secret health id is_active updated_at url'.split(' '),
    );
    await createRecord(tenant, RECORDS, { title: 'a' });
    const [sent] = await receiver.waitFor(1);
    expect(Object.keys(sent?.body)).toEqual('id event entity record_id data timestamp tenant_id'.split(' '));
  });
});

describe('secrets that overlap', () => {
  const OLD = 'whsec_b2xkIG9sZCBvbGQgb2xk';
  const NEW = 'whsec_bmV3IG5ldyBuZXcgbmV3';
  const standard = ({ headers, text }: Received, secret: string): string => {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`;
    return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  };

  test('sign with both until then, the new one first', async () => {
    const { id } = await subscribe(tenant, receiver.url, { secret: OLD });
    const change = (body: Json) => tenant.put(`${SUBSCRIPTIONS}/${id}`, body);
    const changed = await change({ secret: NEW, keepPreviousForHours: 24 });
    const until = Date.parse(changed.body.data.secret_previous_until);
    expect(Math.abs(until - Date.now() - 24 * 3_600_000)).toBeLessThan(60_000);
    await createRecord(tenant, RECORDS, { title: 'a' });
    const [both] = (await receiver.waitFor(1)) as [Received];
    expect(both.headers['webhook-signature']).toBe(`${standard(both, NEW)} ${standard(both, OLD)}`);
    expect(both.headers['x-svc-signature']).toBe(createHmac('sha256', NEW).update(both.text).digest('hex'));
    // When repeated, as after a lost response, it keeps the previous secret.
    await change({ secret: NEW, keepPreviousForHours: 24 });
    await createRecord(tenant, RECORDS, { title: 'b' });
    const again = (await receiver.waitFor(2))[1] as Received;
    expect(again.headers['webhook-signature']).toBe(`${standard(again, NEW)} ${standard(again, OLD)}`);
    const ended = await change({ secret: NEW, keepPreviousForHours: 0 });
    expect(ended.body.data).not.toHaveProperty('secret_previous_until');
    await createRecord(tenant, RECORDS, { title: 'c' });
    const one = (await receiver.waitFor(3))[2] as Received;
    expect(one.headers['webhook-signature']).toBe(standard(one, NEW));
  });

  test('end by themselves, and need a new secret and 0 to 72 hours', async () => {
    const { id } = await subscribe(tenant, receiver.url, { secret: OLD });
    const change = (body: Json) => tenant.put(`${SUBSCRIPTIONS}/${id}`, body);
    await change({ secret: NEW, keepPreviousForHours: 72 });
    await service.app.db.rows(sql`
      update platform.webhook_subscriptions set secret_previous_until = now() where id = ${id}::uuid`);
    expect((await tenant.get(`${SUBSCRIPTIONS}/${id}`)).body.data).not.toHaveProperty('secret_previous_until');
    await createRecord(tenant, RECORDS, { title: 'a' });
    const [sent] = (await receiver.waitFor(1)) as [Received];
    expect(sent.headers['webhook-signature']).toBe(standard(sent, NEW));
    for (const body of [
      { keepPreviousForHours: 1 },
      { secret: 'x', keepPreviousForHours: 73 },
      { secret: 'x', keepPreviousForHours: 1.5 },
    ]) {
      const answer = await change(body);
      expect([answer.status, answer.body.error.details[0].path]).toEqual([400, 'keepPreviousForHours']);
    }
    const none = await change({ secret: null, keepPreviousForHours: 24 });
    expect(none.body.data).toMatchObject({ has_secret: false });
    expect(none.body.data).not.toHaveProperty('secret_previous_until');
  });
});

// The judge is that of the service's own process.
if (process.env.SERVICE_RUNTIME !== 'deno') {
  test('changes that take long to judge, of several tenants, do not delay those of another tenant', async () => {
    const SLOW = 'title = slow';
    const { matches } = Judge.prototype;
    const resume = Promise.withResolvers<void>();
    let waiting = 0;
    Judge.prototype.matches = async function (audience, entity, change) {
      if (audience.filters === SLOW) {
        waiting += 1;
        await resume.promise;
      }
      return matches.call(this, audience, entity, change);
    };
    try {
      const slow = await Promise.all(
        Array.from({ length: 6 }, async () => {
          const other = await tenantWithEntities(service, ['task'], fields('title text'));
          const { id } = await subscribe(other, receiver.url, { filters: SLOW });
          return { other, id };
        }),
      );
      const { id } = await subscribe(tenant, receiver.url, { filters: 'title = quick' });
      for (const { other } of slow) await createRecord(other, RECORDS, { title: 'slow' });
      while (waiting < slow.length) await Bun.sleep(10);
      await createRecord(tenant, RECORDS, { title: 'quick' });
      expect(await within(20_000, settledDeliveries(tenant, id, 1))).toMatchObject([{ status: 'delivered' }]);
      resume.resolve();
      for (const { other, id } of slow) await settledDeliveries(other, id, 1);
    } finally {
      resume.resolve();
      Judge.prototype.matches = matches;
    }
  });
}

test('a test event is marked, and holds values that fit the fields that the subscription shows', async () => {
  await tenant.post('/api/entities', {
    name: 'offer',
    fields: [
      { key: 'title', type: 'text', required: true, minLength: 12, pattern: '^[A-Z]{2}-.*$' },
      { key: 'state', type: 'select', options: ['open', 'closed'] },
      { key: 'price', type: 'integer', min: 10, max: 20 },
      { key: 'hidden', type: 'text' },
    ],
  });
  await partner({ offer: { excludeFields: ['hidden'], rowFilter: 'price = 1' } }, { offer: ['read'] });
  const { id } = await subscribe(tenant, receiver.url, { role: 'partner', entity_name: '*' });
  expect((await tenant.post(`${SUBSCRIPTIONS}/${id}/test`)).status).toBe(201);
  const [sent] = (await receiver.waitFor(1)) as [Received];
  expect(sent.headers['x-svc-test']).toBe('true');
  expect(sent.body).toMatchObject({ test: true, entity: 'offer', event: 'record.created' });
  const { title, state, price } = sent.body.data;
  expect(title).toMatch(/^[A-Z]{2}-.{9,}$/);
  expect([state, price >= 10 && price <= 20]).toEqual(['open', true]);
  expect(sent.body.data).not.toHaveProperty('hidden');
  expect((await tenant.post('/api/entities/offer/records', { title, state, price })).status).toBe(201);
  await settledDeliveries(tenant, id, 1);
});

test('a test event that is sent again shows the fields that the subscription shows by then', async () => {
  const { id } = await subscribe(tenant, receiver.url, { event_types: ['record.updated'], include: ['previous'] });
  const tested = await tenant.post(`${SUBSCRIPTIONS}/${id}/test`);
  const [first] = (await receiver.waitFor(1)) as [Received];
  expect(Object.keys(first.body.data)).toContain('cost');
  await settledDeliveries(tenant, id, 1);
  await partner({ task: { excludeFields: ['cost'] } });
  expect((await tenant.put(`${SUBSCRIPTIONS}/${id}`, { role: 'partner' })).status).toBe(200);
  expect((await tenant.post(`/api/webhooks/deliveries/${tested.body.data.id}/redeliver`)).status).toBe(200);
  const [, again] = (await receiver.waitFor(2)) as [Received, Received];
  expect(again.text).not.toContain('cost');
  const { id: eventId, record_id, timestamp, test: isTest, data, previous } = again.body;
  expect({ id: eventId, record_id, timestamp, test: isTest }).toMatchObject({
    id: first.body.id,
    record_id: first.body.record_id,
    timestamp: first.body.timestamp,
    test: true,
  });
  expect([typeof data.title, previous]).toEqual(['string', data]);
  await settledDeliveries(tenant, id, 1);
  expect((await tenant.get(`/api/webhooks/deliveries/${tested.body.data.id}`)).body.data.body).toBe(again.text);
  await partner({}, {});
  expect((await tenant.post(`/api/webhooks/deliveries/${tested.body.data.id}/redeliver`)).status).toBe(200);
  const [refusedOne] = await settledDeliveries(tenant, id, 1);
  expect(refusedOne).toMatchObject({ status: 'failed', error: 'not sent: the role may not see this' });
});
