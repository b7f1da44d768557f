// What a subscription can send besides the record: the record before an update, within what its role may see, and the cursor
// after the change, from which the feed continues.
// Contract: decisions#webhooks-for-others.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Received, type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/task/records';
const MEMBERS = ['id', 'event', 'entity', 'record_id', 'data', 'timestamp', 'tenant_id'];

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
  await createEntity(tenant, 'task', fields('title text', 'stage text', 'cost integer'));
});
afterEach(() => receiver.stop());

async function partner(task: Json): Promise<void> {
  const role = { permissions: { task: ['read'] }, entities: { task } };
  const made = await tenant.post('/api/roles', { name: 'partner', ...role });
  const changed = made.status === 201 ? made : await tenant.patch('/api/roles/partner', role);
  if (changed.status > 201) throw new Error(`no role: ${changed.text}`);
}

const change = (id: string, values: Json) => tenant.patch(`${RECORDS}/${id}`, values);
const changesSince = async (cursor: string): Promise<Json[]> =>
  (await tenant.get(`/api/changes?since=${cursor}`)).body.data.items;

describe('include: previous', () => {
  test('sends the record before an update, and nothing of a creation or a deletion', async () => {
    const { include } = await subscribe(tenant, receiver.url, { include: ['previous'] });
    expect(include).toEqual(['previous']);
    const record = await createRecord(tenant, RECORDS, { title: 'a', cost: 1 });
    await change(record.id, { title: 'b', stage: 'open' });
    await change(record.id, { cost: null });
    await tenant.delete(`${RECORDS}/${record.id}`);
    const sent = (await receiver.waitFor(4)).map(({ body }) => body);
    expect(sent.map((body) => Object.keys(body))).toEqual([
      MEMBERS,
      [...MEMBERS, 'previous'],
      [...MEMBERS, 'previous'],
      MEMBERS,
    ]);
    expect(sent[1].previous).toEqual(sent[0].data);
    expect(sent[2].previous).toEqual(sent[1].data);
    expect(sent[2].data.cost).toBeNull();
  });

  test('shows the former record as the role may see it, and nothing when it was outside the role’s rows', async () => {
    await partner({ excludeFields: ['cost'], rowFilter: 'stage = "open"' });
    await subscribe(tenant, receiver.url, { role: 'partner', include: ['previous'], fields: ['title', 'stage'] });
    const record = await createRecord(tenant, RECORDS, { title: 'a', stage: 'draft', cost: 1 });
    await change(record.id, { stage: 'open' });
    await change(record.id, { title: 'b', cost: 2 });
    await change(record.id, { stage: 'closed' });
    await change(record.id, { stage: 'open', title: 'c' });
    const sent = (await receiver.waitFor(3)).map(({ body }) => body);
    expect(sent.map(({ data, previous }) => [data.title, previous?.title])).toEqual([
      ['a', undefined],
      ['b', 'a'],
      ['c', undefined],
    ]);
    expect(Object.keys(sent[0])).toEqual(MEMBERS);
    expect(Object.keys(sent[1].previous)).toEqual(Object.keys(sent[1].data));
    for (const { text } of receiver.received) {
      expect(text).not.toContain('cost');
      expect(text).not.toContain('draft');
      expect(text).not.toContain('closed');
    }
  });

  test('shows the former record as the role may see it at the time of sending, repetitions included', async () => {
    await partner({});
    const { id } = await subscribe(tenant, receiver.url, { role: 'partner', include: ['previous'] });
    const record = await createRecord(tenant, RECORDS, { title: 'a', cost: 1 });
    await change(record.id, { cost: 2 });
    await receiver.waitFor(2);
    const update = (await settledDeliveries(tenant, id, 2)).find(({ event }) => event === 'record.updated');
    await partner({ rowFilter: 'cost > 1' });
    expect(await tenant.post(`/api/webhooks/deliveries/${update?.id}/redeliver`)).toMatchObject({ status: 200 });
    const [, before, after] = (await receiver.waitFor(3)) as [Received, Received, Received];
    expect(before.body.previous.cost).toBe(1);
    expect([after.body.id, after.body.data.cost, after.body.previous]).toEqual([before.body.id, 2, undefined]);
  });
});

describe('include: cursor', () => {
  test('is the position in the feed after the change: from it the later changes follow, once', async () => {
    await subscribe(tenant, receiver.url, { include: ['cursor'] });
    for (const title of ['a', 'b', 'c']) {
      await createRecord(tenant, RECORDS, { title });
      await receiver.waitFor({ a: 1, b: 2, c: 3 }[title] as number);
    }
    const [a, b, c] = receiver.received.map(({ body }) => body);
    expect(Object.keys(a)).toEqual([...MEMBERS, 'cursor']);
    expect((await changesSince(a.cursor)).map(({ id }) => id)).toEqual([b.id, c.id]);
    expect(await changesSince(c.cursor)).toEqual([]);
    await createRecord(tenant, RECORDS, { title: 'd' });
    expect((await changesSince(c.cursor)).map(({ data }) => data.title)).toEqual(['d']);
    expect((await (await service.tenant()).get(`/api/changes?since=${a.cursor}`)).status).toBe(403);
  });

  test('misses nothing that is committed after it was sent, whatever is written at once', async () => {
    await subscribe(tenant, receiver.url, { include: ['cursor'] });
    const titles = Array.from({ length: 60 }, (_, i) => String(i));
    await Promise.all(titles.map((title) => createRecord(tenant, RECORDS, { title })));
    const sent = await receiver.waitFor(60);
    const all = (await changesSince('earliest')).map(({ id }) => id);
    for (const { body } of sent) {
      const later = (await changesSince(body.cursor)).map(({ id }) => id);
      const numberedLater = all.slice(all.indexOf(body.id) + 1);
      // A change that was begun earlier and committed later is delivered too.
      expect(later.filter((id) => numberedLater.includes(id))).toEqual(numberedLater);
      expect([later.includes(body.id), new Set(later).size]).toEqual([false, later.length]);
    }
  });

  test('is the same on every attempt, and the cursor of a role works for callers with its rights', async () => {
    await partner({ excludeFields: ['cost'] });
    const plain = await subscribe(tenant, receiver.url, { include: ['cursor', 'previous'] });
    receiver.answer = (_, response) => void response.writeHead(receiver.received.length === 0 ? 500 : 200).end();
    await createRecord(tenant, RECORDS, { title: 'a' });
    const [first, again] = (await receiver.waitFor(2)) as [Received, Received];
    expect(again.text).toBe(first.text);
    await tenant.delete(`${SUBSCRIPTIONS}/${plain.id}`);
    await subscribe(tenant, receiver.url, { include: ['cursor'], role: 'partner' });
    await createRecord(tenant, RECORDS, { title: 'b' });
    const { cursor } = ((await receiver.waitFor(3))[2] as Received).body;
    await createRecord(tenant, RECORDS, { title: 'c' });
    const asRole = await tenant.get(`/api/changes?since=${cursor}`, { 'X-Svc-As-Role': 'partner' });
    expect(asRole.body.data.items.map(({ event, data }: Json) => [event, data.title])).toEqual([
      ['record.created', 'c'],
    ]);
    // A caller that sees more is told to read again, as with any cursor of another caller.
    expect((await changesSince(cursor)).map(({ event }) => event)).toEqual(['rights.changed', 'record.created']);
  });
});

test('include names previous, cursor or both, is shown as given, and null removes it', async () => {
  const { id } = await subscribe(tenant, receiver.url, { include: ['cursor', 'previous', 'cursor'] });
  const at = `${SUBSCRIPTIONS}/${id}`;
  expect((await tenant.get(at)).body.data.include).toEqual(['previous', 'cursor']);
  const refused = await tenant.put(at, { include: ['previous', 'everything'] });
  expect([refused.status, refused.body.error.details[0].path]).toEqual([400, 'include.1']);
  expect((await tenant.put(at, { include: null })).body.data).not.toHaveProperty('include');
  expect((await tenant.put(at, { include: [] })).body.data).not.toHaveProperty('include');
  const record = await createRecord(tenant, RECORDS, { title: 'a' });
  await change(record.id, { title: 'b' });
  for (const { body } of await receiver.waitFor(2)) expect(Object.keys(body)).toEqual(MEMBERS);
});

test('a test event has what the subscription includes', async () => {
  const input = { include: ['previous', 'cursor'], event_types: ['record.updated'] };
  const { id } = await subscribe(tenant, receiver.url, input);
  await tenant.post(`${SUBSCRIPTIONS}/${id}/test`);
  const [{ body }] = (await receiver.waitFor(1)) as [Received];
  expect(Object.keys(body)).toEqual([...MEMBERS, 'test', 'previous', 'cursor']);
  expect(Object.keys(body.previous)).toEqual(Object.keys(body.data));
  expect(await changesSince(body.cursor)).toEqual([]);
});
