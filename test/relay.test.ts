// From the outbox to the streams: events that commit late, sequence gaps after rollbacks, and clients that do not read.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { resolveCaller } from '../src/access/resolve-caller.ts';
import type { CommittedEvent } from '../src/events/event.ts';
import { notifyCommitted } from '../src/events/publication.ts';
import { takeSnapshot } from '../src/events/snapshot.ts';
import { ALL_ENTITIES } from '../src/events/stream-subscriptions.ts';
import type { LiveConnection } from '../src/realtime/membership.ts';
import { SseChannel, sseFrame } from '../src/realtime/sse-channel.ts';
import { TenantConnections } from '../src/realtime/tenant-connections.ts';
import { WaitingBytes } from '../src/realtime/waiting-bytes.ts';
import { newId } from '../src/runtime/ids.ts';
import { openDatabase } from '../src/runtime/postgres.ts';
import { type Queries, sql } from '../src/runtime/sql.ts';
import { startService, type TestService } from './support/service.ts';
import { connectEvents, until } from './support/streams.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

test('sequence gaps after rollbacks delay nothing, and the events of a record arrive in order', async () => {
  const tenant = await service.tenant();
  const path = '/api/entities/articles/records';
  await tenant.post('/api/entities', { name: 'articles', fields: [{ key: 'n', type: 'number' }] });
  const stream = await connectEvents(service.url, tenant.slug, tenant.key);
  const { id } = (await tenant.post(path, { n: 0 })).body.data;
  for (let n = 1; n <= 20; n++) {
    // A gap, as after a rollback.
    if (n % 5 === 0) await service.app.db.rows(sql`select nextval('platform.events_seq')`);
    await tenant.patch(`${path}/${id}`, { n });
  }
  for (let n = 0; n <= 20; n++) expect((await stream.next()).data.data.fields.n).toBe(n);
  stream.close();
});

test('events relayed at once and events read from the outbox arrive in order, each once', async () => {
  const tenant = await service.tenant();
  const path = '/api/entities/articles/records';
  await tenant.post('/api/entities', { name: 'articles', fields: [{ key: 'n', type: 'number' }] });
  const [all, other] = await Promise.all([
    connectEvents(service.url, tenant.slug, tenant.key),
    connectEvents(service.url, tenant.slug, tenant.key, '?entities=others'),
  ]);
  const expected: string[] = [];
  for (let n = 0; n < 15; n++) {
    const { id } = (await tenant.post(path, { n })).body.data;
    const operations = [1, 2, 3].map((more) => ({ op: 'create', data: { n: n + more / 10 } }));
    const created = (await tenant.post(`${path}/bulk`, { operations })).body.data.results.map(
      (each: { id: string }) => each.id,
    );
    await tenant.patch(`${path}/${id}`, { n: -n });
    if (n % 3 === 0) await service.app.db.rows(sql`select nextval('platform.events_seq')`);
    await tenant.delete(`${path}/${id}`);
    const own = ['created', 'updated', 'deleted'].map((what) => `${what} ${id}`);
    expected.push(...own.slice(0, 1), ...created.map((each: string) => `created ${each}`), ...own.slice(1));
  }
  const shown: string[] = [];
  while (shown.length < expected.length) {
    const { event, data } = await all.next();
    shown.push(`${event.replace('record.', '')} ${data.record_id.replace('rec_', '')}`);
  }
  expect(shown).toEqual(expected);
  await tenant.post('/api/entities', { name: 'others', fields: [{ key: 'n', type: 'number' }] });
  await tenant.post('/api/entities/others/records', { n: 1 });
  expect((await other.next()).data.entity).toBe('others');
  all.close();
  other.close();
});

// The embedded database has one session, so no event can commit late.
if (process.env.DATABASE_URL) {
  test('an event whose transaction commits long after later ones is not lost', async () => {
    const tenant = await service.tenant();
    const stream = await connectEvents(service.url, tenant.slug, tenant.key);
    const insert = (name: string) => sql`
      insert into platform.events (id, tenant_id, type, payload, triggered_by)
      values (${newId()}::uuid, ${tenant.id}::uuid, 'rule.executed',
        ${JSON.stringify({ data: { rule_name: name } })}::text::jsonb, 'rule')`;
    const nextName = async (): Promise<string> => (await stream.next()).data.data.rule_name;
    // The request pool would end an idle transaction.
    await service.app.db.slow.begin(async (tx) => {
      await tx.rows(insert('started first'));
      for (const name of ['second', 'third']) {
        await service.app.db.rows(insert(name));
        notifyCommitted(service.app, { tenantId: tenant.id });
        expect(await nextName()).toBe(name);
      }
      // Enough rounds to consider a missing number rolled back.
      for (let i = 0; i < 10; i++) {
        notifyCommitted(service.app, { tenantId: tenant.id });
        await delay(20);
      }
    });
    notifyCommitted(service.app, { tenantId: tenant.id });
    expect(await nextName()).toBe('started first');
    stream.close();
  });

  test('an event of the newest transaction is not mistaken for one that was rolled back', async () => {
    const tenant = await service.tenant();
    const stream = await connectEvents(service.url, tenant.slug, tenant.key);
    const insert = (name: string) => sql`
      insert into platform.events (id, tenant_id, type, payload, triggered_by)
      values (${newId()}::uuid, ${tenant.id}::uuid, 'rule.executed',
        ${JSON.stringify({ data: { rule_name: name } })}::text::jsonb, 'rule')`;
    const nextName = async (): Promise<string> => (await stream.next()).data.data.rule_name;
    const { slow: db } = service.app.db;
    const older = Promise.withResolvers<void>();
    const younger = Promise.withResolvers<void>();
    const late = Promise.withResolvers<void>();
    const first = db.begin(async (tx) => {
      await tx.rows(sql`select pg_current_xact_id()`);
      older.resolve();
      await younger.promise;
      await tx.rows(insert('of the older'));
    });
    await older.promise;
    const second = db.begin(async (tx) => {
      await tx.rows(insert('of the younger'));
      younger.resolve();
      await late.promise;
    });
    await first;
    notifyCommitted(service.app, { tenantId: tenant.id });
    // Once this event has been relayed, the relay knows that the younger event's number is missing.
    expect(await nextName()).toBe('of the older');
    for (let i = 0; i < 10; i++) {
      notifyCommitted(service.app, { tenantId: tenant.id });
      await delay(20);
    }
    late.resolve();
    await second;
    notifyCommitted(service.app, { tenantId: tenant.id });
    expect(await nextName()).toBe('of the younger');
    stream.close();
  });
}

// The memory broker serves a single process.
if (process.env.DATABASE_URL && process.env.REDIS_URL) {
  test('a leader of the relay is replaced as soon as it loses its database connection, and not before', async () => {
    const tenant = await service.tenant();
    const stream = await connectEvents(service.url, tenant.slug, tenant.key);
    await tenant.post('/api/entities', { name: 'articles', fields: [{ key: 'n', type: 'number' }] });
    const other = openDatabase({ url: service.databaseUrl, log: service.app.log });
    await other.rows(sql`
      update platform.relay set leader = ${other.id}::uuid, heartbeat_at = now() + interval '1 hour' where id = 1`);
    // A sequence gap prevents the event from being relayed at once.
    await other.rows(sql`select nextval('platform.events_seq')`);
    await tenant.post('/api/entities/articles/records', { n: 1 });
    await delay(700);
    expect(stream.events.some(({ event }) => event === 'record.created')).toBe(false);
    await other.close();
    expect((await stream.next()).event).toBe('record.created');
    stream.close();
  });
}

/** The connections of a new tenant, all opened with its owner key. */
async function newConnections() {
  const { app } = service;
  const tenant = await service.tenant();
  const load = () => resolveCaller(app, { kind: 'owner_key', value: tenant.key });
  const connections = new TenantConnections(app, tenant.id);
  return {
    connections,
    join: async (connection: LiveConnection, ...entities: string[]) =>
      connections.add({ key: 'all', load, isKnownGood: () => true }, await load(), connection, entities),
    send: (event: Partial<CommittedEvent>, length = 2): void =>
      connections.event({ ...EVENT, tenantId: tenant.id, ...event }, length),
  };
}

test('an event goes to the connections that subscribe to its entity, an event of no entity to all', async () => {
  const { connections, join, send } = await newConnections();
  const delivered: string[] = [];
  const connection: LiveConnection = {
    deliver: ({ entities }, { event }) => void delivered.push(`${entities.join()} of ${event.entity}`),
    disconnect: () => undefined,
  };
  const [a, both, whole] = [
    await join(connection, 'a'),
    await join(connection, 'a', 'b'),
    await join(connection, ALL_ENTITIES),
  ];
  const expectDelivery = async (entity: string | null, ...expected: string[]): Promise<void> => {
    send({ entity });
    await until(
      () => delivered.length >= expected.length,
      10_000,
      () => `delivered: ${delivered}`,
    );
    expect(delivered.splice(0)).toEqual(expected.map((entities) => `${entities} of ${entity}`));
  };
  await expectDelivery('a', 'a', 'a,b', '');
  await expectDelivery('b', 'a,b', '');
  await expectDelivery('c', '');
  await expectDelivery(null, 'a', 'a,b', '');
  expect(connections.setEntities(a, ['b', 'c'])).toBe(true);
  await expectDelivery('a', 'a,b', '');
  await expectDelivery('c', 'b,c', '');
  expect([connections.remove(whole), connections.remove(whole)]).toEqual([true, false]);
  expect(connections.setEntities(whole, ['c'])).toBe(false);
  await expectDelivery('c', 'b,c');
  expect([connections.remove(a), connections.remove(both), connections.isEmpty]).toEqual([true, true, true]);
});

test('events that arrive together are sent together, once per connection, and a large one by itself', async () => {
  const { connections, join, send } = await newConnections();
  const one: string[] = [];
  const other: string[] = [];
  for (const seen of [one, other]) {
    const connection: LiveConnection = {
      deliver: (_, { event }) => void seen.push(event.type),
      flush: () => void seen.push('flush'),
      disconnect: () => undefined,
    };
    await join(connection, ALL_ENTITIES);
  }
  for (const type of ['record.created', 'record.updated', 'record.deleted'] as const) send({ type });
  await connections.drained();
  send({ type: 'record.created' });
  send({ type: 'record.updated' }, 1_000_000);
  send({ type: 'record.deleted' });
  await connections.drained();
  const [a, b, c] = ['record.created', 'record.updated', 'record.deleted'];
  const expected = [a, b, c, 'flush', a, b, 'flush', c, 'flush'];
  expect([one, other]).toEqual([expected, expected]);
});

const EVENT: CommittedEvent = {
  ...{ id: newId(), seq: 1, at: '2026-01-01T00:00:00.000Z', xid: '1', tenantId: '', type: 'rule.executed', row: null },
  ...{ entityId: null, entity: null, recordId: null, payload: {}, actor: null, triggeredBy: 'rule', depth: 0 },
};

test('a snapshot is taken after its request, and requests made while one is being taken share the next', async () => {
  const taken: ((rows: { snapshot: string; last: number }) => void)[] = [];
  const queries = { first: () => new Promise((resolve) => taken.push(resolve)) } as unknown as Queries;
  const isTaken = (count: number): Promise<void> =>
    until(
      () => taken.length === count,
      10_000,
      () => `${taken.length} taken`,
    );
  const first = takeSnapshot(queries);
  await isTaken(1);
  const later = [takeSnapshot(queries), takeSnapshot(queries)];
  taken[0]?.({ snapshot: '10:12:11', last: 7 });
  expect(await first).toEqual({ xmin: 10n, xmax: 12n, running: new Set([11n]), last: 7 });
  await isTaken(2);
  taken[1]?.({ snapshot: '13:13:', last: 8 });
  for (const one of later) expect(await one).toEqual({ xmin: 13n, xmax: 13n, running: new Set(), last: 8 });
  expect(taken).toHaveLength(2);
});

test('a client that reads nothing gets BACKPRESSURE as the last event, or IDLE_TIMEOUT after a while', async () => {
  const ended: string[] = [];
  const stuck = new SseChannel({
    waiting: new WaitingBytes(),
    maxQueued: 10,
    idleTimeoutMs: 60_000,
    onSent: () => undefined,
    onEnd: () => ended.push('stuck'),
  });
  for (let i = 0; i < 20; i++) stuck.send(sseFrame('record.created', { i }));
  await until(
    () => ended.length > 0,
    10_000,
    () => 'not ended',
  );
  const text = await new Response(stuck.stream).text();
  expect(text).toContain('event: error\nid: 1\ndata: {"type":"error","code":"BACKPRESSURE"');
  expect(text).not.toContain('record.created');
  const idle = new SseChannel({
    waiting: new WaitingBytes(),
    maxQueued: 10,
    idleTimeoutMs: 50,
    onSent: () => undefined,
    onEnd: () => ended.push('idle'),
  });
  expect(await new Response(idle.stream).text()).toContain('"code":"IDLE_TIMEOUT"');
  expect(ended).toEqual(['stuck', 'idle']);
});

test('a client that is cut in the middle of a large event, because others wait for its bytes, releases them at once', async () => {
  const waiting = new WaitingBytes();
  const open = () =>
    new SseChannel({ waiting, maxQueued: 10, idleTimeoutMs: 60_000, onSent: () => undefined, onEnd: () => undefined });
  const [stalled, other] = [open(), open()];
  const large = sseFrame('record.created', { text: 'x'.repeat(1_000_000) });
  for (const channel of [stalled, other]) channel.send(large);
  const reader = stalled.stream.getReader();
  expect((await reader.read()).value?.byteLength).toBeGreaterThan(60_000);
  other.cut();
  expect(waiting.total).toBeGreaterThanOrEqual(large.size);
  stalled.cut();
  expect(stalled.waitingBytes).toBe(0);
  // The error of the other stream.
  expect(waiting.total).toBeLessThan(1_000);
  await expect(reader.read()).rejects.toThrow('does not read');
  // No event of this stream had begun, so it gets the reason.
  expect(await new Response(other.stream).text()).toContain('"code":"BACKPRESSURE"');
  expect([waiting.total, waiting.readers.size]).toEqual([0, 0]);
});

test('a burst to a client that reads causes neither error', async () => {
  const channel = new SseChannel({
    waiting: new WaitingBytes(),
    maxQueued: 10,
    idleTimeoutMs: 60_000,
    onSent: () => undefined,
    onEnd: () => undefined,
  });
  const reading = new Response(channel.stream).text();
  for (let i = 0; i < 400; i++) channel.send(sseFrame('record.created', { i }));
  await delay(300);
  channel.end();
  const text = await reading;
  expect(text.match(/^event: record\.created$/gm)).toHaveLength(400);
  expect(text).not.toContain('event: error');
});
