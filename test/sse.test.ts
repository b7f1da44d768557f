// The SSE stream: wire format, filters and connection limits. Contract: interface#sse, decisions#sse.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { closeAfterEach } from './support/connections.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents, type EventStream, openEvents, until } from './support/streams.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService({ SSE_HEARTBEAT_INTERVAL_MS: '300', SSE_MAX_CONNECTIONS_PER_TENANT: '3' });
});
afterAll(() => service.stop());

const keep = closeAfterEach();
const newTenant = () => tenantWithEntities(service, ['articles', 'notes'], fields('title text', 'secret text'));

const connect = async (tenant: TestTenant, query = '', key = tenant.key): Promise<EventStream> =>
  keep(await connectEvents(service.url, tenant.slug, key, query));

const RECORDS = '/api/entities/articles/records';

test('a stream begins with retry, connected and a heartbeat, numbered from 1', async () => {
  const tenant = await newTenant();
  const stream = await connect(tenant);
  expect(stream.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(stream.headers.get('cache-control')).toBe('no-store');
  expect(stream.headers.get('x-accel-buffering')).toBe('no');
  expect(stream.text.startsWith('retry: 3000\n\nevent: connected\nid: 1\ndata: {')).toBe(true);
  await until(
    () => stream.events.length >= 4,
    60_000,
    () => stream.text,
  );
  expect(stream.events.slice(0, 3).map(({ event, id }) => [event, id])).toEqual([
    ['connected', '1'],
    ['heartbeat', '2'],
    ['heartbeat', '3'],
  ]);
  expect(stream.events[0]?.data).toEqual({
    type: 'connected',
    tenant: tenant.slug,
    connection_id: expect.any(String),
    timestamp: expect.stringMatching(/Z$/),
  });
  expect(stream.events[1]?.data).toEqual({ type: 'heartbeat', timestamp: expect.stringMatching(/\.\d{3}Z$/) });
});

test('a created, updated and deleted record yields three events; earlier changes yield none', async () => {
  const tenant = await newTenant();
  await tenant.post(RECORDS, { title: 'before' });
  const stream = await connect(tenant);
  const { body } = await tenant.post(RECORDS, { title: 'one', secret: 's' });
  const { id, updatedAt } = body.data;
  await tenant.patch(`${RECORDS}/${id}`, { title: 'two' });
  await tenant.delete(`${RECORDS}/${id}`);
  const created = await stream.next();
  expect(created.event).toBe('record.created');
  expect(created.data).toEqual({
    id: expect.stringMatching(/^evt_[0-9a-f-]{36}$/),
    type: 'record.created',
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    tenant: tenant.slug,
    entity: 'articles',
    record_id: id,
    data: { fields: { title: 'one', secret: 's' }, triggered_by: 'api' },
  });
  expect(Math.abs(Date.parse(created.data.timestamp) - Date.parse(updatedAt))).toBeLessThan(5_000);
  expect((await stream.next()).data.data.fields.title).toBe('two');
  const deleted = await stream.next();
  expect([deleted.event, deleted.data.record_id]).toEqual(['record.deleted', id]);
});

test('a stream names at most as many entities as a tenant can have: one more is 400', async () => {
  const tenant = await newTenant();
  const names = (count: number): string => `?entities=${Array.from({ length: count }, (_, i) => `e${i}`).join()}`;
  await connect(tenant, names(500));
  const refused = keep(await openEvents(service.url, tenant.slug, tenant.key, names(501)));
  expect([refused.status, refused.text.includes('more than 500')]).toEqual([400, true]);
});

test('`entities` and `events` filter the stream; an unknown event type is 400, an unknown entity never matches', async () => {
  const tenant = await newTenant();
  const notes = await connect(tenant, '?entities=notes,nothing');
  const deletions = await connect(tenant, '?events=record.deleted');
  const { body } = await tenant.post(RECORDS, { title: 'a' });
  await tenant.delete(`${RECORDS}/${body.data.id}`);
  await tenant.post('/api/entities/notes/records', { title: 'n' });
  expect((await deletions.next()).event).toBe('record.deleted');
  expect((await notes.next()).data.entity).toBe('notes');
  const rejected = await openEvents(service.url, tenant.slug, tenant.key, '?events=record.nothing');
  expect(rejected.status).toBe(400);
});

test('streams that name unknown entities store nothing of these, and get the events of one that is created later', async () => {
  const tenant = await newTenant();
  const unknown = Array.from({ length: 100 }, (_, i) => `unknown_${i}`);
  const [later, known] = [
    await connect(tenant, `?entities=later,${unknown}`),
    await connect(tenant, '?entities=notes'),
  ];
  const stored = await service.app.db.rows<{ entity: string }>(sql`
    select distinct entity from platform.stream_subscriptions where tenant_id = ${tenant.id}::uuid order by entity`);
  expect(stored).toEqual([{ entity: '' }, { entity: 'notes' }]);
  expect((await tenant.post('/api/entities', { name: 'later' })).status).toBe(201);
  await tenant.post('/api/entities/notes/records', { title: 'n' });
  const { body } = await tenant.post('/api/entities/later/records', {});
  const created = await later.next();
  expect([created.event, created.data.record_id]).toEqual(['record.created', body.data.id]);
  expect((await known.next()).data.entity).toBe('notes');
});

test('a bulk request yields one event per record, in order', async () => {
  const tenant = await newTenant();
  const stream = await connect(tenant);
  const operations = Array.from({ length: 500 }, (_, i) => ({ op: 'create', data: { title: `t${i}` } }));
  const answer = await tenant.post(`${RECORDS}/bulk`, { operations });
  expect(answer.status).toBe(200);
  const titles: string[] = [];
  while (titles.length < 500) titles.push((await stream.next()).data.data.fields.title);
  expect(titles).toEqual(operations.map(({ data }) => data.title));
});

test('a tenant’s streams are limited; a closed connection releases its lease', async () => {
  const tenant = await newTenant();
  const [first] = [await connect(tenant), await connect(tenant), await connect(tenant)];
  const rejected = await openEvents(service.url, tenant.slug, tenant.key);
  expect(rejected.status).toBe(429);
  expect(JSON.parse(rejected.text).error.code).toBe('RATE_LIMITED');
  expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThan(0);
  first?.close();
  // The service may notice the closed connection only at its next write.
  const statuses = new Set<number>();
  while (!statuses.has(200)) {
    const again = await openEvents(service.url, tenant.slug, tenant.key);
    keep(again);
    statuses.add(again.status);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  statuses.delete(429);
  expect([...statuses]).toEqual([200]);
});

test('HEAD is rejected', async () => {
  const tenant = await service.tenant();
  const response = await fetch(`${service.url}/api/v1/tenants/${tenant.slug}/events/stream`, {
    method: 'HEAD',
    headers: { authorization: `Bearer ${tenant.key}` },
  });
  expect([404, 405]).toContain(response.status);
});
