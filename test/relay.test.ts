// From the outbox to the streams: late numbers, rollbacks, and a channel that nobody reads.
import { afterAll, beforeAll, expect, setSystemTime, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { boundCaller } from '../src/access/bound.ts';
import { EVERYTHING, Listening } from '../src/events/listening.ts';
import { Relay, type RelayedEvent, streamOf } from '../src/events/relay.ts';
import { takeSnapshot } from '../src/events/snapshot.ts';
import { Audience, type Listener } from '../src/realtime/audience.ts';
import { Channel, frameOf } from '../src/realtime/channel.ts';
import { MemoryBroker } from '../src/runtime/broker/memory.ts';
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

test('numbers that are never committed hold nothing up, and every record keeps its order', async () => {
  const tenant = await service.tenant();
  const path = '/api/entities/articles/records';
  await tenant.post('/api/entities', { name: 'articles', fields: [{ key: 'n', type: 'number' }] });
  const stream = await connectEvents(service.url, tenant.slug, tenant.key);
  const { id } = (await tenant.post(path, { n: 0 })).body.data;
  for (let n = 1; n <= 20; n++) {
    // Numbers of a transaction that was rolled back.
    if (n % 5 === 0) await service.app.db.rows(sql`select nextval('platform.events_seq')`);
    await tenant.patch(`${path}/${id}`, { n });
  }
  for (let n = 0; n <= 20; n++) expect((await stream.next()).data.data.fields.n).toBe(n);
  stream.close();
});

// The embedded database has one session: there no number can come late, and no such test.
if (process.env.DATABASE_URL) {
  test('an event whose transaction commits long after later ones is not lost', async () => {
    const tenant = await service.tenant();
    const stream = await connectEvents(service.url, tenant.slug, tenant.key);
    const insert = (name: string) => sql`
      insert into platform.events (id, tenant_id, type, payload, triggered_by)
      values (${newId()}::uuid, ${tenant.id}::uuid, 'rule.executed',
        ${JSON.stringify({ data: { rule_name: name } })}::text::jsonb, 'rule')`;
    const nextName = async (): Promise<string> => (await stream.next()).data.data.rule_name;
    // Not of the request pool, which gives a transaction up that does nothing for a while.
    await service.app.db.slow.begin(async (tx) => {
      await tx.rows(insert('begun first'));
      for (const name of ['second', 'third']) {
        await service.app.db.rows(insert(name));
        service.app.committed();
        expect(await nextName()).toBe(name);
      }
      // Rounds enough to take the number for dead, were it not held open.
      for (let i = 0; i < 10; i++) {
        service.app.committed();
        await delay(20);
      }
    });
    service.app.committed();
    expect(await nextName()).toBe('begun first');
    stream.close();
  });

  test('an event whose transaction is the youngest of all is not taken for dead', async () => {
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
    service.app.committed();
    // Once it was relayed, the number of the younger is known to be missing.
    expect(await nextName()).toBe('of the older');
    for (let i = 0; i < 10; i++) {
      service.app.committed();
      await delay(20);
    }
    late.resolve();
    await second;
    service.app.committed();
    expect(await nextName()).toBe('of the younger');
    stream.close();
  });
}

// With the broker of a single process there is no other to be relieved.
if (process.env.DATABASE_URL && process.env.REDIS_URL) {
  test('a process that relays is left alone while it has a connection, and relieved as soon as it has none', async () => {
    const tenant = await service.tenant();
    const stream = await connectEvents(service.url, tenant.slug, tenant.key);
    await tenant.post('/api/entities', { name: 'articles', fields: [{ key: 'n', type: 'number' }] });
    const other = openDatabase({ url: service.databaseUrl, log: service.app.log });
    await other.rows(sql`
      update platform.relay set holder = ${other.id}::uuid, touched_at = now() + interval '1 hour' where id = 1`);
    await tenant.post('/api/entities/articles/records', { n: 1 });
    await delay(700);
    expect(stream.events.some(({ event }) => event === 'record.created')).toBe(false);
    await other.close();
    expect((await stream.next()).event).toBe('record.created');
    stream.close();
  });
}

/** Written down as a process does that has streams; the others are forgotten. */
async function listenTo(...listened: { tenantId: string; entity: string }[]): Promise<void> {
  const { db } = service.app;
  await db.rows(sql`delete from platform.listeners`);
  const processId = newId();
  await db.rows(sql`insert into platform.listeners (process_id) values (${processId}::uuid)`);
  for (const { tenantId, entity } of listened) {
    await db.rows(sql`
      insert into platform.listened (tenant_id, entity, process_id)
      values (${tenantId}::uuid, ${entity}, ${processId}::uuid)`);
  }
}

/** Resolves when the service's own relay rests, since nobody listens any more: until then it would relay too. */
async function rests(): Promise<void> {
  const holder = sql`select from platform.relay where holder is not null`;
  for (await listenTo(); (await service.app.db.first(holder)) !== undefined; await listenTo()) await delay(10);
}

test('what is committed between one relay’s rest and the next one’s beginning is not left out', async () => {
  await rests();
  const { app } = service;
  const { id: tenantId } = await service.tenant();
  await app.db.rows(sql`update platform.relay set holder = null, touched_at = now() - interval '1 hour'`);
  const relayed: number[] = [];
  const broker = new Proxy(app.broker, {
    get: (target, name) => {
      if (name !== 'append') return Reflect.get(target, name).bind(target);
      return async (_: string, { events = '[]' }: Record<string, string>) => {
        relayed.push(...JSON.parse(events).map(({ payload }: { payload: { n: number } }) => payload.n));
        return '1-1';
      };
    },
  });
  const write = (n: number) =>
    app.db.rows(sql`
      insert into platform.events (id, tenant_id, type, payload, triggered_by)
      values (${newId()}::uuid, ${tenantId}::uuid, 'rule.executed', ${JSON.stringify({ n })}::text::jsonb, 'rule')`);
  const [first, second] = [1, 2].map(
    () => new Relay({ ...app, broker, db: { ...app.db, id: newId() } }, () => relayed.push(-1)),
  );
  await listenTo({ tenantId, entity: 'anything' });
  await first?.claim();
  await write(1);
  await first?.once();
  expect(await first?.rest()).toBe(false);
  await listenTo();
  expect(await first?.rest()).toBe(true);
  await write(2);
  await listenTo({ tenantId, entity: 'anything' });
  await second?.claim();
  // Maybe twice: who begins goes back to the first number that may still come.
  expect([...new Set(relayed)]).toEqual([1, 2]);
  await listenTo();
  expect(await second?.rest()).toBe(true);
});

test('only what somebody listens to is relayed, and streams that get nothing are forgotten', async () => {
  await rests();
  const broker = new MemoryBroker(service.app.log);
  const app = { ...service.app, broker, config: { ...service.app.config, redisUrl: null } };
  const [whole, part, unheard] = [await service.tenant(), await service.tenant(), await service.tenant()];
  await listenTo({ tenantId: whole.id, entity: EVERYTHING }, { tenantId: part.id, entity: 'heard' });
  const relay = new Relay(app, () => undefined);
  await relay.claim();
  const happen = async (entity: string | null, ...tenants: { id: string }[]) => {
    for (const { id } of tenants) {
      await app.db.rows(sql`
        insert into platform.events (id, tenant_id, type, entity, payload, triggered_by)
        values (${newId()}::uuid, ${id}::uuid, 'rule.executed', ${entity}, '{}', 'rule')`);
    }
    return relay.once();
  };
  expect(await happen('unheard', unheard, part)).toEqual({ seen: 2, relayed: 0 });
  for (const { id } of [whole, part, unheard]) expect(await broker.lastId(streamOf(id))).toBe('0-0');
  expect(await happen('heard', unheard, part, whole)).toEqual({ seen: 3, relayed: 2 });
  expect(await happen(null, unheard, part, whole)).toEqual({ seen: 3, relayed: 2 });
  for (const { id } of [whole, part]) expect(await broker.lastId(streamOf(id))).not.toBe('0-0');
  expect(await broker.lastId(streamOf(unheard.id))).toBe('0-0');
  setSystemTime(Date.now() + 2 * 3_600_000);
  for (let i = 0; i < 1_000; i++) await broker.append('busy', { i: String(i) }, 10);
  expect(await broker.lastId(streamOf(whole.id))).toBe('0-0');
  expect(await broker.lastId('busy')).not.toBe('0-0');
  // Who has begun to listen since then is told of no gap.
  await happen('heard', whole);
  setSystemTime();
  const [entry] = await broker.read(new Map([[streamOf(whole.id), '0-0']]), 1_000, 1);
  expect(entry?.fields.after).toBe('0-0');
  await listenTo();
  expect(await relay.rest()).toBe(true);
  await broker.close();
});

test('what is listened to is written down before listening has begun, and taken out when nobody does any more', async () => {
  const { app } = service;
  const { id: tenantId } = await service.tenant();
  const processId = newId();
  const written = async () => {
    const rows = await app.db.rows<{ entity: string }>(sql`
      select entity from platform.listened where process_id = ${processId}::uuid order by entity`);
    return rows.map(({ entity }) => entity);
  };
  const told: unknown[] = [];
  const onFirst = async () => void told.push(await written());
  const options = { app, processId, onFirst, onLost: () => told.push('lost') };
  const listening = await Listening.open(options, () => undefined);
  expect(listening.hears(tenantId)).toBe(false);
  await listening.add(tenantId, ['a', 'b']);
  await listening.add(tenantId, ['b', 'c']);
  expect(told).toEqual([['a', 'b']]);
  expect(await written()).toEqual(['a', 'b', 'c']);
  expect([listening.hears(tenantId), listening.hears()]).toEqual([true, true]);
  listening.remove(tenantId, ['a', 'b']);
  await listening.renew();
  expect(await written()).toEqual(['b', 'c']);
  listening.remove(tenantId, ['b', 'c']);
  expect(listening.hears(tenantId)).toBe(false);
  await listening.renew();
  expect(await written()).toEqual([]);
  await listening.add(tenantId, ['a']);
  expect(told).toEqual([['a', 'b'], ['a']]);
  await listening.close();
  expect(await written()).toEqual([]);
});

test('a process that others took for dead is told that events may have been left out', async () => {
  const { app } = service;
  const { id: tenantId } = await service.tenant();
  const [dead, other] = [newId(), newId()];
  const told: string[] = [];
  const open = (processId: string) =>
    Listening.open(
      { app, processId, onFirst: async () => undefined, onLost: () => told.push(processId) },
      () => undefined,
    );
  const [first, second] = [await open(dead), await open(other)];
  await first.add(tenantId, ['a']);
  await second.add(tenantId, ['a']);
  await app.db.rows(sql`
    update platform.listeners set touched_at = now() - interval '1 hour' where process_id = ${dead}::uuid`);
  await second.renew();
  await first.renew();
  await second.renew();
  expect(told).toEqual([dead]);
  // The same where the loss is found by what is listened to next.
  await second.add(tenantId, ['b']);
  await app.db.rows(sql`delete from platform.listeners where process_id = ${other}::uuid`);
  await second.add(tenantId, ['c']);
  expect(told).toEqual([dead, other]);
  await Promise.all([first.close(), second.close()]);
});

test('an event is handed to those alone who listen to its entity, one of no entity to all', async () => {
  const { app } = service;
  const tenant = await service.tenant();
  const load = () => boundCaller(app, { kind: 'owner_key', value: tenant.key });
  const audience = new Audience(app, tenant.id);
  const told: string[] = [];
  const listener: Listener = {
    deliver: ({ entities }, { entity }) => void told.push(`${entities.join()} of ${entity}`),
    end: () => undefined,
  };
  const seat = async (...entities: string[]) => audience.add({ key: 'all', load }, await load(), listener, entities);
  const [a, both, whole] = [await seat('a'), await seat('a', 'b'), await seat(EVERYTHING)];
  const tells = async (entity: string | null, ...expected: string[]): Promise<void> => {
    audience.event({ ...EVENT, tenantId: tenant.id, entity });
    await until(
      () => told.length >= expected.length,
      10_000,
      () => `told: ${told}`,
    );
    expect(told.splice(0)).toEqual(expected.map((entities) => `${entities} of ${entity}`));
  };
  await tells('a', 'a', 'a,b', '');
  await tells('b', 'a,b', '');
  await tells('c', '');
  await tells(null, 'a', 'a,b', '');
  expect(audience.listen(a, ['b', 'c'])).toBe(true);
  await tells('a', 'a,b', '');
  await tells('c', 'b,c', '');
  expect([audience.remove(whole), audience.remove(whole)]).toEqual([true, false]);
  expect(audience.listen(whole, ['c'])).toBe(false);
  await tells('c', 'b,c');
  expect([audience.remove(a), audience.remove(both), audience.isEmpty]).toEqual([true, true, true]);
});

const EVENT: RelayedEvent = {
  ...{ id: newId(), seq: 1, at: '2026-01-01T00:00:00.000Z', xid: '1', tenantId: '', type: 'rule.executed', row: null },
  ...{ entityId: null, entity: null, recordId: null, payload: {}, actor: null, triggeredBy: 'rule', depth: 0 },
};

test('a snapshot is taken after it was asked for, one for all who ask while another is being taken', async () => {
  const taken: ((rows: { snapshot: string }) => void)[] = [];
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
  taken[0]?.({ snapshot: '10:12:11' });
  expect(await first).toEqual({ xmin: 10n, xmax: 12n, running: new Set([11n]) });
  await isTaken(2);
  taken[1]?.({ snapshot: '13:13:' });
  for (const one of later) expect(await one).toEqual({ xmin: 13n, xmax: 13n, running: new Set() });
  expect(taken).toHaveLength(2);
});

test('a client that takes nothing ends with BACKPRESSURE as the last event, one that takes nothing for long with IDLE_TIMEOUT', async () => {
  const ended: string[] = [];
  const stuck = new Channel({ maxQueued: 10, idleTimeoutMs: 60_000, onEnd: () => ended.push('stuck') });
  for (let i = 0; i < 20; i++) stuck.send(frameOf('record.created', { i }));
  await until(
    () => ended.length > 0,
    10_000,
    () => 'not given up',
  );
  const text = await new Response(stuck.stream).text();
  expect(text).toContain('event: error\nid: 1\ndata: {"type":"error","code":"BACKPRESSURE"');
  expect(text).not.toContain('record.created');
  const idle = new Channel({ maxQueued: 10, idleTimeoutMs: 50, onEnd: () => ended.push('idle') });
  expect(await new Response(idle.stream).text()).toContain('"code":"IDLE_TIMEOUT"');
  expect(ended).toEqual(['stuck', 'idle']);
});

test('a burst to a client that reads ends with neither', async () => {
  const channel = new Channel({ maxQueued: 10, idleTimeoutMs: 60_000, onEnd: () => undefined });
  const reading = new Response(channel.stream).text();
  for (let i = 0; i < 400; i++) channel.send(frameOf('record.created', { i }));
  await delay(300);
  channel.end();
  const text = await reading;
  expect(text.match(/^event: record\.created$/gm)).toHaveLength(400);
  expect(text).not.toContain('event: error');
});
