// What is listened to, and that the relay keeps to it: on a database beside which no service runs, since that would
// take part in the relaying.
import { afterAll, beforeAll, expect, setSystemTime, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type App, closeApp, createApp } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { type CommittedEvent, type EventRecord, toEvent } from '../src/events/event.ts';
import { Relay, streamOf } from '../src/events/relay.ts';
import { ALL_ENTITIES, StreamSubscriptions } from '../src/events/stream-subscriptions.ts';
import { MemoryBroker } from '../src/runtime/broker/memory.ts';
import { type Embedded, startEmbedded } from '../src/runtime/embedded.ts';
import { newId } from '../src/runtime/ids.ts';
import { createLog } from '../src/runtime/log.ts';
import { sql } from '../src/runtime/sql.ts';
import { SECRETS } from './support/service.ts';
import { givenDatabaseUrl } from './support/stores.ts';

let directory: string;
let embedded: Embedded | undefined;
let app: App;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'listening-'));
  const log = createLog({ level: 'error', write: () => undefined });
  const given = givenDatabaseUrl();
  if (given === undefined) embedded = await startEmbedded(directory, log);
  const config = readConfig({ ...SECRETS, DATA_DIR: directory, DEMO: '0', PORT: '0' });
  app = await createApp(config, given ?? (embedded as Embedded).url, log);
});
afterAll(async () => {
  await closeApp(app);
  await embedded?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** Written down as a process does that has streams; the others are forgotten. */
async function listenTo(...listened: { tenantId: string; entity: string }[]): Promise<void> {
  const { db } = app;
  await db.rows(sql`delete from platform.stream_processes`);
  const processId = newId();
  await db.rows(sql`insert into platform.stream_processes (process_id) values (${processId}::uuid)`);
  for (const { tenantId, entity } of listened) {
    await db.rows(sql`
      insert into platform.stream_subscriptions (tenant_id, entity, process_id)
      values (${tenantId}::uuid, ${entity}, ${processId}::uuid)`);
  }
}

test('what is committed between one relay’s rest and the next one’s beginning is not left out', async () => {
  const tenantId = newId();
  await app.db.rows(sql`update platform.relay set leader = null, heartbeat_at = now() - interval '1 hour'`);
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
  await first?.lead();
  await write(1);
  await first?.once();
  expect(await first?.resign()).toBe(false);
  await listenTo();
  expect(await first?.resign()).toBe(true);
  await write(2);
  await listenTo({ tenantId, entity: 'anything' });
  await second?.lead();
  // Maybe twice: who begins goes back to the first number that may still come.
  expect([...new Set(relayed)]).toEqual([1, 2]);
  await listenTo();
  expect(await second?.resign()).toBe(true);
});

test('only what somebody listens to is relayed, and streams that get nothing are forgotten', async () => {
  const broker = new MemoryBroker(app.log);
  const [whole, part, unheard] = [newId(), newId(), newId()];
  await listenTo({ tenantId: whole, entity: ALL_ENTITIES }, { tenantId: part, entity: 'heard' });
  const relay = new Relay({ ...app, broker }, () => undefined);
  await relay.lead();
  const happen = async (entity: string | null, ...tenantIds: string[]) => {
    for (const id of tenantIds) {
      await app.db.rows(sql`
        insert into platform.events (id, tenant_id, type, entity, payload, triggered_by)
        values (${newId()}::uuid, ${id}::uuid, 'rule.executed', ${entity}, '{}', 'rule')`);
    }
    return relay.once();
  };
  expect(await happen('unheard', unheard, part)).toEqual({ seen: 2, relayed: 0 });
  for (const id of [whole, part, unheard]) expect(await broker.lastId(streamOf(id))).toBe('0-0');
  expect(await happen('heard', unheard, part, whole)).toEqual({ seen: 3, relayed: 2 });
  expect(await happen(null, unheard, part, whole)).toEqual({ seen: 3, relayed: 2 });
  for (const id of [whole, part]) expect(await broker.lastId(streamOf(id))).not.toBe('0-0');
  expect(await broker.lastId(streamOf(unheard))).toBe('0-0');
  setSystemTime(Date.now() + 2 * 3_600_000);
  for (let i = 0; i < 1_000; i++) await broker.append('busy', { i: String(i) }, 10);
  expect(await broker.lastId(streamOf(whole))).toBe('0-0');
  expect(await broker.lastId('busy')).not.toBe('0-0');
  // Who has begun to listen since then is told of no gap.
  await happen('heard', whole);
  setSystemTime();
  const [entry] = await broker.read(new Map([[streamOf(whole), '0-0']]), 1_000, 1);
  expect(entry?.fields.after).toBe('0-0');
  await listenTo();
  expect(await relay.resign()).toBe(true);
  await broker.close();
});

/** A relay that has a place, what it has added to its stream, and a change as its writer has it once it is committed. */
async function offering() {
  const tenantId = newId();
  const added: string[] = [];
  const broker = new MemoryBroker(app.log);
  const fails = { next: 0 };
  const watched = new Proxy(broker, {
    get: (target, name) => {
      if (name !== 'append') return Reflect.get(target, name).bind(target);
      return (stream: string, fields: Record<string, string>, max: number) => {
        if (fails.next-- > 0) return Promise.reject(new Error('the broker is away'));
        added.push(...JSON.parse(fields.events ?? '[]').map(({ id }: { id: string }) => id));
        return target.append(stream, fields, max);
      };
    },
  });
  await app.db.rows(sql`update platform.relay set leader = null, heartbeat_at = now() - interval '1 hour'`);
  await listenTo({ tenantId, entity: ALL_ENTITIES });
  const relay = new Relay({ ...app, broker: watched }, () => undefined);
  // Numbers that an earlier test left out are looked for until they cannot come any more.
  for (let rounds = 0; rounds < 500 && !relay.canRelayNow; rounds++) {
    await relay.lead();
    if (!relay.canRelayNow) await delay(10);
  }
  const commit = async (): Promise<CommittedEvent> => {
    const [row] = await app.db.rows<EventRecord>(sql`
      insert into platform.events (id, tenant_id, type, payload, triggered_by)
      values (${newId()}::uuid, ${tenantId}::uuid, 'rule.executed', '{}', 'rule')
      returning *, xid::text as xid`);
    if (row === undefined) throw new Error('nothing was written');
    return toEvent(row);
  };
  const end = async () => {
    await listenTo();
    expect(await relay.resign()).toBe(true);
    await broker.close();
  };
  return { relay, added, fails, commit, end };
}

test('a lone event is relayed without a look at the outbox, and not a second time by the next one', async () => {
  const { relay, added, commit, end } = await offering();
  const events = [await commit(), await commit()];
  for (const event of events) expect(await relay.relayNow(event)).toBe(true);
  expect(added).toEqual(events.map(({ id }) => id));
  expect(await relay.once()).toEqual({ seen: 0, relayed: 0 });
  const next = await commit();
  expect(await relay.once()).toEqual({ seen: 1, relayed: 1 });
  expect(added.at(-1)).toBe(next.id);
  await end();
});

test('an event that is not the very next one, or comes while others are relayed, waits for its turn', async () => {
  const { relay, added, commit, end } = await offering();
  const first = await commit();
  const second = await commit();
  expect(relay.relayNow(second)).toBe(null);
  const round = relay.once();
  expect(relay.relayNow(first)).toBe(null);
  expect(await round).toEqual({ seen: 2, relayed: 2 });
  expect(added).toEqual([first.id, second.id]);
  expect(relay.relayNow(first)).toBe(null);
  const third = await commit();
  const fourth = await commit();
  const offered = relay.relayNow(third);
  expect(relay.relayNow(fourth)).toBe(null);
  expect(await offered).toBe(true);
  await relay.once();
  expect(added).toEqual([first.id, second.id, third.id, fourth.id]);
  await end();
});

test('an event that the broker does not take at once is relayed by the next round', async () => {
  const { relay, added, fails, commit, end } = await offering();
  const event = await commit();
  fails.next = 1;
  expect(await relay.relayNow(event)).toBe(false);
  expect(added).toEqual([]);
  expect(await relay.once()).toEqual({ seen: 1, relayed: 1 });
  expect(added).toEqual([event.id]);
  await end();
});

test('who does not know for sure that it relays passes nothing on without a look', async () => {
  const { relay, commit, end } = await offering();
  const event = await commit();
  await app.db.rows(sql`update platform.relay set leader = ${newId()}::uuid`);
  const before = performance.now();
  while (performance.now() - before < 10_000 && relay.canRelayNow) await delay(20);
  expect(relay.relayNow(event)).toBe(null);
  await app.db.rows(sql`update platform.relay set leader = null`);
  await relay.lead();
  await end();
});

test('what is listened to is written down before listening has begun, and taken out when nobody does any more', async () => {
  const tenantId = newId();
  const processId = newId();
  const written = async () => {
    const rows = await app.db.rows<{ entity: string }>(sql`
      select entity from platform.stream_subscriptions where process_id = ${processId}::uuid order by entity`);
    return rows.map(({ entity }) => entity);
  };
  const told: unknown[] = [];
  const onFirst = async () => void told.push(await written());
  const options = { app, processId, onFirst, onLeaseLost: () => told.push('lost') };
  const listening = await StreamSubscriptions.open(options);
  expect(listening.hasSubscribers(tenantId)).toBe(false);
  await listening.add(tenantId, ['a', 'b']);
  await listening.add(tenantId, ['b', 'c']);
  expect(told).toEqual([['a', 'b']]);
  expect(await written()).toEqual(['a', 'b', 'c']);
  expect([listening.hasSubscribers(tenantId), listening.hasSubscribers()]).toEqual([true, true]);
  listening.remove(tenantId, ['a', 'b']);
  await listening.renew();
  expect(await written()).toEqual(['b', 'c']);
  listening.remove(tenantId, ['b', 'c']);
  expect(listening.hasSubscribers(tenantId)).toBe(false);
  await listening.renew();
  expect(await written()).toEqual([]);
  await listening.add(tenantId, ['a']);
  expect(told).toEqual([['a', 'b'], ['a']]);
  await listening.close();
  expect(await written()).toEqual([]);
});

test('a process that others took for dead is told that events may have been left out', async () => {
  const tenantId = newId();
  const [dead, other] = [newId(), newId()];
  const told: string[] = [];
  const open = (processId: string) =>
    StreamSubscriptions.open({
      app,
      processId,
      onFirst: async () => undefined,
      onLeaseLost: () => told.push(processId),
    });
  const [first, second] = [await open(dead), await open(other)];
  await first.add(tenantId, ['a']);
  await second.add(tenantId, ['a']);
  await app.db.rows(sql`
    update platform.stream_processes set heartbeat_at = now() - interval '1 hour' where process_id = ${dead}::uuid`);
  await second.renew();
  await first.renew();
  await second.renew();
  expect(told).toEqual([dead]);
  // The same where the loss is found by what is listened to next.
  await second.add(tenantId, ['b']);
  await app.db.rows(sql`delete from platform.stream_processes where process_id = ${other}::uuid`);
  await second.add(tenantId, ['c']);
  expect(told).toEqual([dead, other]);
  await Promise.all([first.close(), second.close()]);
});
