// Stream subscriptions and the relay that reads them, on a database without a running service, which would relay too.
import { afterAll, beforeAll, expect, setSystemTime, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../src/app.ts';
import { type CommittedEvent, EVENT_COLUMNS, type EventRow, toEvent } from '../src/events/event.ts';
import { Relay, streamOf } from '../src/events/relay.ts';
import { ALL_ENTITIES, StreamSubscriptions } from '../src/events/stream-subscriptions.ts';
import { TenantStream } from '../src/events/tenant-stream.ts';
import { MemoryBroker } from '../src/runtime/broker/memory.ts';
import { newId, timeOf } from '../src/runtime/ids.ts';
import { sql } from '../src/runtime/sql.ts';
import { type AppAlone, openAppAlone } from './support/app-alone.ts';

let app: App;
let opened: AppAlone;
beforeAll(async () => {
  opened = await openAppAlone();
  app = opened.app;
});
afterAll(async () => opened.close());

/** Stores these subscriptions as those of one process, and deletes all others. */
async function storeSubscriptions(...subscriptions: { tenantId: string; entity: string }[]): Promise<void> {
  const { db } = app;
  await db.rows(sql`delete from platform.stream_processes`);
  const processId = newId();
  await db.rows(sql`insert into platform.stream_processes (process_id) values (${processId}::uuid)`);
  for (const { tenantId, entity } of subscriptions) {
    await db.rows(sql`
      insert into platform.stream_subscriptions (tenant_id, entity, process_id)
      values (${tenantId}::uuid, ${entity}, ${processId}::uuid)`);
  }
}

test('an event committed between the end of one leader and the start of the next is relayed', async () => {
  const tenantId = newId();
  await app.db.rows(sql`update platform.relay set leader = null, heartbeat_at = now() - interval '1 hour'`);
  const relayed: number[] = [];
  const broker = new Proxy(app.broker, {
    get: (target, name) => {
      if (name !== 'appendChain') return Reflect.get(target, name).bind(target);
      return async (_: string, __: string, texts: string[]) => {
        const events = texts.flatMap((text) => JSON.parse(text));
        relayed.push(...events.map(({ payload }: { payload: { n: number } }) => payload.n));
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
  await storeSubscriptions({ tenantId, entity: 'anything' });
  await first?.lead();
  await write(1);
  await first?.once();
  expect(await first?.resign()).toBe(false);
  await storeSubscriptions();
  expect(await first?.resign()).toBe(true);
  await write(2);
  await storeSubscriptions({ tenantId, entity: 'anything' });
  await second?.lead();
  // Perhaps twice: the next leader starts at the first number that may be uncommitted.
  expect([...new Set(relayed)]).toEqual([1, 2]);
  await storeSubscriptions();
  expect(await second?.resign()).toBe(true);
});

test('only events with a subscriber are relayed, and idle streams expire', async () => {
  const broker = new MemoryBroker(app.log);
  const [all, some, none] = [newId(), newId(), newId()];
  await storeSubscriptions({ tenantId: all, entity: ALL_ENTITIES }, { tenantId: some, entity: 'subscribed' });
  const relay = new Relay({ ...app, broker }, () => undefined);
  await relay.lead();
  const commitAndRelay = async (entity: string | null, ...tenantIds: string[]) => {
    for (const id of tenantIds) {
      await app.db.rows(sql`
        insert into platform.events (id, tenant_id, type, entity, payload, triggered_by)
        values (${crypto.randomUUID()}::uuid, ${id}::uuid, 'rule.executed', ${entity}, '{}', 'rule')`);
    }
    return relay.once();
  };
  expect(await commitAndRelay('other', none, some)).toEqual({ seen: 2, relayed: 0 });
  for (const id of [all, some, none]) expect(await broker.lastId(streamOf(id))).toBe('0-0');
  expect(await commitAndRelay('subscribed', none, some, all)).toEqual({ seen: 3, relayed: 2 });
  expect(await commitAndRelay(null, none, some, all)).toEqual({ seen: 3, relayed: 2 });
  for (const id of [all, some]) expect(await broker.lastId(streamOf(id))).not.toBe('0-0');
  expect(await broker.lastId(streamOf(none))).toBe('0-0');
  setSystemTime(Date.now() + 2 * 3_600_000);
  for (let i = 0; i < 1_000; i++) await broker.append('busy', { i: String(i) }, 10);
  expect(await broker.lastId(streamOf(all))).toBe('0-0');
  expect(await broker.lastId('busy')).not.toBe('0-0');
  // A new subscriber sees no gap.
  await commitAndRelay('subscribed', all);
  setSystemTime();
  // An id made meanwhile would put all later ones of this process two hours ahead, and the records of other tests with them.
  expect(timeOf(newId())).toBeLessThan(Date.now() + 1_000);
  const [entry] = await broker.read(new Map([[streamOf(all), '0-0']]), 1_000, 1);
  expect(entry?.fields.after).toBe('0-0');
  await storeSubscriptions();
  expect(await relay.resign()).toBe(true);
  await broker.close();
});

/** A leading relay, the events it has appended, and a function that commits an event. */
async function leadingRelay() {
  const tenantId = newId();
  const appended: string[] = [];
  const broker = new MemoryBroker(app.log);
  const fails = { next: 0 };
  const watched = new Proxy(broker, {
    get: (target, name) => {
      if (name !== 'appendChain') return Reflect.get(target, name).bind(target);
      return (stream: string, field: string, texts: string[], after: string, max: number) => {
        if (fails.next-- > 0) return Promise.reject(new Error('the broker is unavailable'));
        appended.push(...texts.flatMap((text) => JSON.parse(text)).map(({ id }: { id: string }) => id));
        return target.appendChain(stream, field, texts, after, max);
      };
    },
  });
  await app.db.rows(sql`update platform.relay set leader = null, heartbeat_at = now() - interval '1 hour'`);
  await storeSubscriptions({ tenantId, entity: ALL_ENTITIES });
  const relay = new Relay({ ...app, broker: watched }, () => undefined);
  // Event numbers missing since an earlier test are read again until their transactions are known to be rolled back.
  for (let rounds = 0; rounds < 500 && !relay.canRelayNow; rounds++) {
    await relay.lead();
    if (!relay.canRelayNow) await delay(10);
  }
  const commit = async (): Promise<CommittedEvent> => {
    const [row] = await app.db.rows<EventRow>(sql`
      insert into platform.events (id, tenant_id, type, payload, triggered_by)
      values (${newId()}::uuid, ${tenantId}::uuid, 'rule.executed', '{}', 'rule')
      returning ${EVENT_COLUMNS}`);
    if (row === undefined) throw new Error('no event was inserted');
    return toEvent(row);
  };
  const end = async (leader = relay) => {
    await storeSubscriptions();
    expect(await leader.resign()).toBe(true);
    await broker.close();
  };
  return { tenantId, relay, broker: watched, appended, fails, commit, end };
}

test('the next event is relayed without reading the outbox, and not again by the next round', async () => {
  const { relay, appended, commit, end } = await leadingRelay();
  const events = [await commit(), await commit()];
  for (const event of events) expect(await relay.relayNow(event)).toBe(true);
  expect(appended).toEqual(events.map(({ id }) => id));
  expect(await relay.once()).toEqual({ seen: 0, relayed: 0 });
  const next = await commit();
  expect(await relay.once()).toEqual({ seen: 1, relayed: 1 });
  expect(appended.at(-1)).toBe(next.id);
  await end();
});

test('an event that is not the next one, or that commits during a round, is relayed by a round', async () => {
  const { relay, appended, commit, end } = await leadingRelay();
  const first = await commit();
  const second = await commit();
  expect(relay.relayNow(second)).toBe(null);
  const round = relay.once();
  expect(relay.relayNow(first)).toBe(null);
  expect(await round).toEqual({ seen: 2, relayed: 2 });
  expect(appended).toEqual([first.id, second.id]);
  expect(relay.relayNow(first)).toBe(null);
  const third = await commit();
  const fourth = await commit();
  const relayed = relay.relayNow(third);
  expect(relay.relayNow(fourth)).toBe(null);
  expect(await relayed).toBe(true);
  await relay.once();
  expect(appended).toEqual([first.id, second.id, third.id, fourth.id]);
  await end();
});

test('an event whose append fails is relayed by the next round', async () => {
  const { relay, appended, fails, commit, end } = await leadingRelay();
  const event = await commit();
  fails.next = 1;
  expect(await relay.relayNow(event)).toBe(false);
  expect(appended).toEqual([]);
  expect(await relay.once()).toEqual({ seen: 1, relayed: 1 });
  expect(appended).toEqual([event.id]);
  await end();
});

test('events relayed at once are appended again by a leader that takes over before the next round, but passed on once', async () => {
  const { tenantId, relay, broker, appended, commit, end } = await leadingRelay();
  const event = await commit();
  expect(await relay.relayNow(event)).toBe(true);
  // Its process is killed: the cursor is stored by the next round.
  await app.db.rows(sql`update platform.relay set heartbeat_at = now() - interval '10 s'`);
  const next = new Relay({ ...app, broker, db: { ...app.db, id: newId() } }, () => undefined);
  await next.lead();
  const later = await commit();
  await next.once();
  expect(appended).toEqual([event.id, event.id, later.id]);
  const received: string[] = [];
  const stream = new TenantStream(
    tenantId,
    '0-0',
    app.db,
    () => undefined,
    () => undefined,
  );
  stream.subscribers.add({
    event: ({ id }) => void received.push(id),
    gap: () => undefined,
    drained: async () => undefined,
  });
  for (const entry of await broker.read(new Map([[streamOf(tenantId), '0-0']]), 1_000, 10)) {
    expect(entry.fields.after).toBe(stream.lastId);
    stream.lastId = entry.id;
    stream.receive(entry);
  }
  expect(received).toEqual([event.id, later.id]);
  await end(next);
});

test('a process that may no longer be the leader does not relay an event immediately', async () => {
  const { relay, commit, end } = await leadingRelay();
  const event = await commit();
  await app.db.rows(sql`update platform.relay set leader = ${newId()}::uuid`);
  const before = performance.now();
  while (performance.now() - before < 10_000 && relay.canRelayNow) await delay(20);
  expect(relay.relayNow(event)).toBe(null);
  await app.db.rows(sql`update platform.relay set leader = null`);
  await relay.lead();
  await end();
});

test('subscriptions are stored before they take effect, and deleted with the last subscriber', async () => {
  const tenantId = newId();
  const processId = newId();
  const stored = async () => {
    const rows = await app.db.rows<{ entity: string }>(sql`
      select entity from platform.stream_subscriptions where process_id = ${processId}::uuid order by entity`);
    return rows.map(({ entity }) => entity);
  };
  const calls: unknown[] = [];
  const onFirst = async () => void calls.push(await stored());
  const options = { app, processId, onFirst, onLeaseLost: () => calls.push('lost') };
  const subscriptions = await StreamSubscriptions.open(options);
  expect(subscriptions.hasSubscribers(tenantId)).toBe(false);
  await subscriptions.add(tenantId, ['a', 'b']);
  await subscriptions.add(tenantId, ['b', 'c']);
  expect(calls).toEqual([['a', 'b']]);
  expect(await stored()).toEqual(['a', 'b', 'c']);
  expect([subscriptions.hasSubscribers(tenantId), subscriptions.hasSubscribers()]).toEqual([true, true]);
  subscriptions.remove(tenantId, ['a', 'b']);
  await subscriptions.renew();
  expect(await stored()).toEqual(['b', 'c']);
  subscriptions.remove(tenantId, ['b', 'c']);
  expect(subscriptions.hasSubscribers(tenantId)).toBe(false);
  await subscriptions.renew();
  expect(await stored()).toEqual([]);
  await subscriptions.add(tenantId, ['a']);
  expect(calls).toEqual([['a', 'b'], ['a']]);
  await subscriptions.close();
  expect(await stored()).toEqual([]);
});

test('a process is notified when its lease has expired, because events may be missing', async () => {
  const tenantId = newId();
  const [expired, other] = [newId(), newId()];
  const calls: string[] = [];
  const open = (processId: string) =>
    StreamSubscriptions.open({
      app,
      processId,
      onFirst: async () => undefined,
      onLeaseLost: () => calls.push(processId),
    });
  const [first, second] = [await open(expired), await open(other)];
  await first.add(tenantId, ['a']);
  await second.add(tenantId, ['a']);
  await app.db.rows(sql`
    update platform.stream_processes set heartbeat_at = now() - interval '1 hour' where process_id = ${expired}::uuid`);
  await second.renew();
  await first.renew();
  await second.renew();
  expect(calls).toEqual([expired]);
  // A new subscription finds the expired lease too.
  await second.add(tenantId, ['b']);
  await app.db.rows(sql`delete from platform.stream_processes where process_id = ${other}::uuid`);
  await second.add(tenantId, ['c']);
  expect(calls).toEqual([expired, other]);
  await Promise.all([first.close(), second.close()]);
});
