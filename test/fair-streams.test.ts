// Live events are served in turn by tenant: a backlog of one tenant delays no other's events, and a new leader relays the rest
// of each, nothing twice. Runs on a database without a running service, which would relay too.
// Contract: neighbours#fair-shares, decisions#events.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import type { App } from '../src/app.ts';
import { Backlog, isRelayed } from '../src/events/backlog.ts';
import type { CommittedEvent } from '../src/events/event.ts';
import { union } from '../src/events/number-ranges.ts';
import { cursorAtEnd, readOutbox } from '../src/events/outbox-cursor.ts';
import { Relay } from '../src/events/relay.ts';
import { StreamTails } from '../src/events/stream-tails.ts';
import { isReference, readStreamed, type StreamedEvent } from '../src/events/streamed-event.ts';
import { type Subscriber, TenantStream } from '../src/events/tenant-stream.ts';
import { LIMITS } from '../src/limits.ts';
import { MemoryBroker } from '../src/runtime/broker/memory.ts';
import { newId } from '../src/runtime/ids.ts';
import { type Queries, sql } from '../src/runtime/sql.ts';
import { type AppAlone, openAppAlone } from './support/app-alone.ts';
import { seededRandom } from './support/random.ts';

/** More than one read of the outbox takes. */
const BACKLOG = 45_000;

let app: App;
let opened: AppAlone;
beforeAll(async () => {
  opened = await openAppAlone();
  app = opened.app;
});
afterAll(async () => opened.close());

let busy: string;
let quiet: string;
beforeEach(async () => {
  [busy, quiet] = [newId(), newId()];
  await app.db.rows(sql`delete from platform.stream_processes`);
  const processId = newId();
  await app.db.rows(sql`insert into platform.stream_processes (process_id) values (${processId}::uuid)`);
  await app.db.rows(sql`
    insert into platform.stream_subscriptions (tenant_id, entity, process_id)
    select unnest(${[busy, quiet]}::uuid[]), '', ${processId}::uuid`);
  await app.db.rows(sql`
    update platform.relay set leader = null, heartbeat_at = now() - interval '1 hour', watermark = 0, position = null`);
});

/** Commits events with the numbers `from` to `to`, each with `bytes` of text. */
async function commit(
  tenantId: string,
  from: number,
  to: number,
  bytes = 0,
  queries: Queries = app.db.slow,
): Promise<void> {
  await queries.rows(sql`
    insert into platform.events (id, tenant_id, type, payload, triggered_by)
    select platform.uuidv7(), ${tenantId}::uuid, 'rule.executed',
      jsonb_build_object('n', n, 'text', repeat('x', ${bytes}::int)), 'rule'
    from generate_series(${from}::int, ${to}::int) as n`);
}

/** A relay that acts as another process and appends to `broker`; and the appended events, in order. */
function relayOf(appended: { tenantId: string; events: StreamedEvent[] }[], broker = new MemoryBroker(app.log)) {
  const recording = new Proxy(broker, {
    get: (target, name) => {
      if (name !== 'appendChain') return Reflect.get(target, name).bind(target);
      return (stream: string, field: string, texts: string[], after: string, max: number) => {
        for (const text of texts) appended.push({ tenantId: stream.slice('events:'.length), events: JSON.parse(text) });
        return target.appendChain(stream, field, texts, after, max);
      };
    },
  });
  return new Relay({ ...app, broker: recording, db: { ...app.db, id: newId() } } as App, () => undefined);
}

async function endLease(): Promise<void> {
  await app.db.rows(sql`update platform.relay set heartbeat_at = now() - interval '10 s'`);
}

const numbersOf = (events: readonly StreamedEvent[]): unknown[] =>
  events.map((event) => (isReference(event) ? 'reference' : event.payload?.n));

test("a tenant's event is relayed after at most a few hundred of another's backlog", async () => {
  const appended: { tenantId: string; events: StreamedEvent[] }[] = [];
  const relay = relayOf(appended);
  await relay.lead();
  await commit(busy, 1, BACKLOG);
  await commit(quiet, 1, 1);
  do await relay.once();
  while (relay.waiting > 0);
  const at = appended.findIndex(({ tenantId }) => tenantId === quiet);
  expect(appended.slice(0, at).flatMap(({ events }) => events).length).toBeLessThan(600);
  const numbers = appended.filter(({ tenantId }) => tenantId === busy).flatMap(({ events }) => numbersOf(events));
  expect(numbers).toEqual(Array.from({ length: BACKLOG }, (_, i) => i + 1));
});

test('a leader that takes over relays the rest of each tenant, in order and nothing twice', async () => {
  const appended: { tenantId: string; events: StreamedEvent[] }[] = [];
  const broker = new MemoryBroker(app.log);
  const first = relayOf(appended, broker);
  await first.lead();
  await commit(busy, 1, BACKLOG);
  await commit(quiet, 1, 3_000);
  for (let i = 0; i < 12; i++) await first.once();
  expect(first.waiting).toBeGreaterThan(0);
  await commit(quiet, 3_001, 3_001);
  await endLease();
  const second = relayOf(appended, broker);
  // A round may find only what the first one has relayed.
  while ((await second.once())?.seen !== 0 || second.waiting > 0);
  for (const [tenantId, count] of [
    [busy, BACKLOG],
    [quiet, 3_001],
  ] as const) {
    const numbers = appended.filter((entry) => entry.tenantId === tenantId).flatMap(({ events }) => numbersOf(events));
    expect(numbers).toEqual(Array.from({ length: count }, (_, i) => i + 1));
  }
});

test('large events are relayed as references, and are passed on in their place', async () => {
  const broker = new MemoryBroker(app.log);
  const appended: { tenantId: string; events: StreamedEvent[] }[] = [];
  const relay = relayOf(appended, broker);
  await relay.lead();
  await commit(busy, 1, 2);
  await commit(busy, 3, 12, 900_000);
  await commit(busy, 13, 14);
  while ((await relay.once())?.seen !== 0 || relay.waiting > 0);
  const numbers = numbersOf(appended.flatMap(({ events }) => events));
  expect(numbers).toEqual([1, 2, ...Array.from({ length: 10 }, () => 'reference'), 13, 14]);
  const received: CommittedEvent[] = [];
  const caughtUp = Promise.withResolvers<void>();
  const stream = new TenantStream(busy, '0-0', app.db, caughtUp.reject, caughtUp.resolve);
  const subscriber: Subscriber = {
    event: (event) => void received.push(event),
    gap: () => undefined,
    drained: async () => undefined,
  };
  stream.subscribers.add(subscriber);
  for (const entry of await broker.read(new Map([[`events:${busy}`, '0-0']]), 1_000, 100)) stream.receive(entry);
  expect(stream.isBusy).toBe(true);
  await caughtUp.promise;
  expect(received.map(({ payload }) => payload?.n)).toEqual(Array.from({ length: 14 }, (_, i) => i + 1));
  expect(received.map(({ payload }) => String(payload?.text).length)).toContain(900_000);
});

test('a leader that starts reads the end of the outbox only, also from a partition without statistics', async () => {
  await commit(busy, 1, 30_000);
  const rowsRead = await app.db.begin(async (tx) => {
    const { readTo } = await cursorAtEnd(tx);
    expect(readTo).toBeGreaterThanOrEqual(30_000);
    await readOutbox(tx, { readTo, missing: [{ ranges: [[readTo, readTo]], owners: [3n] }], resumed: null });
    await readStreamed(tx, [readTo]);
    const read = await tx.first<{ rows: number }>(sql`
      select coalesce(sum(seq_tup_read), 0)::int as rows from pg_stat_xact_user_tables where relname like 'events%'`);
    return read?.rows;
  });
  expect(rowsRead).toBe(0);
});

// The embedded database has one session, so no transaction runs beside another.
if (process.env.DATABASE_URL) {
  test("beside another tenant's transaction with 100,000 events, each event is relayed once, in the next round", async () => {
    const appended: { tenantId: string; events: StreamedEvent[] }[] = [];
    const relay = relayOf(appended);
    await relay.lead();
    const relayedOf = (id: string): unknown[] =>
      appended.filter(({ tenantId }) => tenantId === id).flatMap(({ events }) => numbersOf(events));
    const round = async (): Promise<Record<string, unknown>> => {
      await relay.once();
      const state = await app.db.first<{ position: Record<string, unknown> }>(sql`select position from platform.relay`);
      return state?.position ?? {};
    };
    for (const outcome of ['committed', 'rolled back']) {
      appended.length = 0;
      const long = app.db.slow.begin(async (tx) => {
        for (let n = 1; n <= 20; n++) {
          await commit(busy, (n - 1) * 5_000 + 1, n * 5_000, 0, tx);
          await commit(quiet, n, n, 0, app.db);
          const { missing } = await round();
          expect(relayedOf(quiet)).toEqual(Array.from({ length: n }, (_, i) => i + 1));
          expect((missing as unknown[]).length).toBe(n);
        }
        if (outcome === 'rolled back') throw new Error(outcome);
      });
      await long.catch(() => undefined);
      do await relay.once();
      while (relay.waiting > 0);
      const expected = outcome === 'committed' ? Array.from({ length: 100_000 }, (_, i) => i + 1) : [];
      expect(relayedOf(busy)).toEqual(expected);
      // A number is given up once every transaction that is older than it has ended, those of other databases included.
      while (((await round()).missing as unknown[]).length > 0) await Bun.sleep(20);
    }
  }, 60_000);
}

test('a backlog over the limit is dropped for the tenant with the most, and its streams see a gap', () => {
  const backlog = new Backlog();
  backlog.add(busy, [1, 2, 3, 5], 0);
  backlog.add(quiet, [4], 0);
  expect(backlog.dropLargest()).toBe(busy);
  expect([backlog.size, backlog.has(busy), backlog.has(quiet)]).toEqual([1, false, true]);
});

test('a position says of each number whether it has been relayed, for any order of commits', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = seededRandom(seed);
    const tenants = ['a', 'b', 'c'];
    const owner = Array.from({ length: 200 }, () => tenants[Math.floor(random() * 3)] as string);
    const backlog = new Backlog();
    const relayed = new Set<number>();
    let missing: number[] = [];
    let readTo = -1;
    for (let round = 0; round < 12; round++) {
      const to = Math.min(owner.length - 1, readTo + Math.floor(random() * 40));
      const candidates = [...missing, ...Array.from({ length: to - readTo }, (_, i) => readTo + 1 + i)];
      const appeared = candidates.filter(() => random() < 0.6);
      missing = candidates.filter((seq) => !appeared.includes(seq));
      for (const tenant of tenants)
        backlog.add(
          tenant,
          appeared.filter((seq) => owner[seq] === tenant),
          readTo,
        );
      readTo = to;
      for (const [tenant, numbers] of backlog.next(10, 3, 4)) {
        for (const seq of numbers) relayed.add(seq);
        backlog.relayed(tenant, numbers.length);
      }
      const position = JSON.parse(
        JSON.stringify(backlog.position(readTo, union([[...missing].map((seq) => [seq, seq])]))),
      );
      for (const [seq, tenant] of owner.entries()) {
        expect({ seed, seq, is: isRelayed(position, tenant, seq) }).toEqual({ seed, seq, is: relayed.has(seq) });
        if (seq <= position.watermark) expect(relayed.has(seq)).toBe(true);
      }
    }
  }
});

test('a stream keeps at most 16 MiB, all together 256 MiB, and the largest gives up its older half first', () => {
  const { streamBytes, streamsBytes, streamEntries } = LIMITS.events;
  const tails = new StreamTails();
  const append = (stream: string, bytes: number): number => tails.add(stream, bytes, stream !== 'unknown');
  let kept = 0;
  for (let i = 0; i < 2_000; i++) kept = append('small', 100);
  expect(kept).toBe(streamEntries);
  for (let i = 0; i < 2_000; i++) kept = append('large', 90_000);
  expect([kept, tails.bytes]).toEqual([Math.floor(streamBytes / 90_000), kept * 90_000 + streamEntries * 100]);
  // An earlier leader may have appended entries of any size; few readers are so far behind.
  const first = append('unknown', 100);
  expect([first > 100, (first - 1) * 98_304 <= streamBytes]).toEqual([true, true]);
  expect([...tails.dropExcess()]).toEqual([]);
  for (let tenant = 0; tenant < 20; tenant++) for (let i = 0; i < 200; i++) append(`t${tenant}`, 90_000);
  expect(tails.bytes).toBeGreaterThan(streamsBytes);
  expect([...tails.dropExcess()].map(({ stream }) => stream)).not.toContain('small');
  expect(tails.bytes).toBeLessThanOrEqual(streamsBytes);
  expect(tails.bytes).toBeGreaterThan(streamsBytes - streamBytes);
});
