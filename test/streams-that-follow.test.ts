// Event streams, WebSockets and tickets that follow the feed: from a cursor without a gap or a repetition, under a condition,
// with transitions. Contract: feed#resume, feed#filtered-subscriptions.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import process from 'node:process';
import { unavailable } from '../src/errors.ts';
import { EARLIEST, type FeedPosition, laterOf, positionAt } from '../src/events/feed.ts';
import type { FeedHead } from '../src/events/feed-heads.ts';
import { isSeenIn, parseSnapshot } from '../src/events/snapshot.ts';
import { closeAfterEach } from './support/connections.ts';
import { addRole, adminSession, changeRole, platformKey } from './support/credentials.ts';
import { createRecord, fields, tenantWithEntities } from './support/entities.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents, type EventStream, openEvents, subscribeSocket } from './support/streams.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await newTenant();
});
afterAll(() => service.stop());

const keep = closeAfterEach();
const DEALS = '/api/entities/deals/records';
const newTenant = () =>
  tenantWithEntities(service, ['deals', 'tasks'], fields('title text', 'amount integer', 'secret text'));

const now = async (client: Client): Promise<string> => (await client.get('/api/changes')).body.data.nextCursor;

async function stream(query: Record<string, string>, of = tenant, key = of.key): Promise<EventStream> {
  return keep(await connectEvents(service.url, of.slug, key, `?${new URLSearchParams(query)}`));
}

/** Another file that uses this store may have emptied its Redis: then a stream is to connect again. */
function sayIfNot503(error: unknown): null {
  if (String(error).includes('SERVICE_UNAVAILABLE')) return null;
  throw error;
}

const shown = ({ event, data }: { event: string; data: Json }): string =>
  `${event} ${data.data?.fields?.title ?? data.data?.id ?? ''}`.trim();

async function take(from: EventStream, count: number): Promise<string[]> {
  const seen: string[] = [];
  for (let i = 0; i < count; i++) seen.push(shown(await from.next()));
  return seen;
}

describe('an event stream with since', () => {
  test('continues when pages cannot be read for a moment', async () => {
    // The service is another process there.
    if (process.env.SERVICE_RUNTIME === 'deno') return;
    const events = await stream({ since: await now(tenant) });
    const { db } = service.app;
    const { rows } = db;
    let failures = 3;
    db.rows = (statement, budget) => {
      const isPage = statement.strings[0]?.includes('with start as materialized') === true;
      return isPage && failures-- > 0 ? Promise.reject(unavailable('a statement was late')) : rows(statement, budget);
    };
    try {
      await createRecord(tenant, DEALS, { title: 'later' });
      expect(await take(events, 1)).toEqual(['record.created later']);
      expect(failures).toBeLessThan(0);
    } finally {
      db.rows = rows;
    }
  });

  test('replays kept events, continues live, and gives each event a cursor to continue from', async () => {
    const since = await now(tenant);
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    await tenant.patch(`${DEALS}/${id}`, { title: 'b' });
    const first = await stream({ since });
    expect(shown(await first.next())).toBe('record.created a');
    const second = await first.next();
    expect(second.data).toEqual({
      id: expect.stringMatching(/^evt_/),
      type: 'record.updated',
      timestamp: expect.any(String),
      tenant: tenant.slug,
      entity: 'deals',
      record_id: id,
      data: { fields: { title: 'b', amount: null, secret: null }, triggered_by: 'api' },
      cursor: expect.any(String),
    });
    await tenant.patch(`${DEALS}/${id}`, { title: 'c' });
    expect(await take(first, 1)).toEqual(['record.updated c']);
    first.close();
    await tenant.delete(`${DEALS}/${id}`);
    expect(await take(await stream({ since: second.data.cursor }), 2)).toEqual([
      'record.updated c',
      'record.deleted c',
    ]);
  });

  test('has neither a gap nor a repetition while others write, however often it is disconnected', async () => {
    const other = await newTenant();
    let since = await now(other);
    const total = 150;
    const writing = (async () => {
      for (let i = 0; i < total / 5; i++) {
        const operations = Array.from({ length: 5 }, (_, j) => ({ op: 'create', data: { amount: i * 5 + j } }));
        await other.post(`${DEALS}/bulk`, { operations });
      }
    })();
    const amounts: number[] = [];
    while (amounts.length < total) {
      const cut = await stream({ since, entities: 'deals' }, other).catch(sayIfNot503);
      if (cut === null) continue;
      for (let i = 0; i < 17 && amounts.length < total; i++) {
        const { event, data } = await cut.next();
        if (event !== 'record.created') break;
        amounts.push(data.data.fields.amount);
        since = data.cursor;
      }
      cut.close();
    }
    await writing;
    expect(amounts.toSorted((a, b) => a - b)).toEqual(Array.from({ length: total }, (_, i) => i));
  }, 60_000);

  test('without since nothing is replayed, and nothing is different', async () => {
    await createRecord(tenant, DEALS, { title: 'before' });
    const plain = await stream({ entities: 'deals' });
    await createRecord(tenant, DEALS, { title: 'after' });
    const { data } = await plain.next();
    expect(data.data.fields.title).toBe('after');
    expect(Object.keys(data)).toEqual(['id', 'type', 'timestamp', 'tenant', 'entity', 'record_id', 'data']);
  });

  test('is refused before it opens: 400 for nonsense and conditions that cannot be, 403 for the cursor of another tenant', async () => {
    const foreign = await now(await newTenant());
    const status = async (query: Record<string, string>) => {
      const refused = await openEvents(service.url, tenant.slug, tenant.key, `?${new URLSearchParams(query)}`);
      return refused.status;
    };
    expect(await status({ since: 'nonsense' })).toBe(400);
    expect(await status({ since: foreign })).toBe(403);
    expect(await status({ filters: 'amount > 1' })).toBe(400);
    expect(await status({ entities: 'deals', filters: 'nothing = 1' })).toBe(400);
    expect(await status({ entities: 'deals', events: 'record.left' })).toBe(400);
    expect(await status({ view: 'nobodys' })).toBe(404);
  });
});

describe('a filtered event stream', () => {
  test('shows what a condition or a view selects, and transitions as such', async () => {
    const other = await newTenant();
    const filterDsl = { validate: [{ condition: 'amount > 10' }] };
    await other.post('/api/views', { entitySlug: 'deals', slug: 'big', name: 'Big', filterDsl });
    const streams = [
      await stream({ entities: 'deals', filters: 'amount > 10' }, other),
      await stream({ view: 'big', transitions: 'true' }, other),
    ];
    const { id } = await createRecord(other, DEALS, { title: 'a', amount: 1 });
    await other.patch(`${DEALS}/${id}`, { amount: 11 });
    await other.patch(`${DEALS}/${id}`, { amount: 2 });
    await createRecord(other, DEALS, { title: 'b', amount: 12 });
    expect(await take(streams[0] as EventStream, 2)).toEqual(['record.updated a', 'record.created b']);
    expect(await take(streams[1] as EventStream, 3)).toEqual([
      'record.entered a',
      `record.left ${id}`,
      'record.created b',
    ]);
  });

  test('with transitions an entity with a row filter is no longer suppressed, and changed rights end in rights.changed', async () => {
    const other = await newTenant();
    const role = await addRole(service, other, {
      permissions: { deals: ['read'] },
      entities: { deals: { rowFilter: 'amount > 10', excludeFields: ['secret'] } },
    });
    const key = await platformKey(service, other, role.name, { deals: ['read'] });
    const since = await now(service.anonymous.with({ authorization: `Bearer ${key}` }));
    const [suppressed, following] = [
      await stream({ since }, other, key),
      await stream({ transitions: 'true' }, other, key),
    ];
    const { id } = await createRecord(other, DEALS, { title: 'a', amount: 1, secret: 's' });
    await other.patch(`${DEALS}/${id}`, { amount: 11 });
    const entered = await following.next();
    expect([entered.event, entered.data.data.fields]).toEqual(['record.entered', { title: 'a', amount: 11 }]);
    await changeRole(service, other, role.name, { permissions: {}, entities: {} });
    expect((await following.next()).event).toBe('rights.changed');
    // The first event that it shows is the one of the changed rights.
    expect((await suppressed.next()).event).toBe('rights.changed');
  }, 30_000);

  test('a ticket may name since, filters, view and transitions, which narrow the stream', async () => {
    const other = await newTenant();
    const since = await now(other);
    await createRecord(other, DEALS, { title: 'small', amount: 1 });
    await createRecord(other, DEALS, { title: 'big', amount: 11 });
    const path = `/api/v1/tenants/${other.slug}/events/tickets`;
    const body = { entities: 'deals', filters: 'amount > 10', since, transitions: true };
    const { ticket } = (await other.post(path, body)).body.data;
    const opened = keep(await openEvents(service.url, other.slug, '', `?ticket=${ticket}`));
    expect(shown(await nextRecord(opened))).toBe('record.created big');
    expect((await other.post(path, { filters: 'amount > 10' })).status).toBe(400);
    expect((await other.post(path, { since: 'nonsense' })).status).toBe(400);
  });

  test('no condition of a stream or subscription can close a parenthesis of its ticket’s condition', async () => {
    const other = await newTenant();
    const path = `/api/v1/tenants/${other.slug}/events/tickets`;
    const narrowed = async (): Promise<string> =>
      (await other.post(path, { entities: 'deals', filters: 'amount > 10' })).body.data.ticket;
    const open = async (filters: string) => {
      const query = `?ticket=${await narrowed()}&filters=${encodeURIComponent(filters)}`;
      return keep(await openEvents(service.url, other.slug, '', query));
    };
    for (const filters of ['amount < 3) OR (amount > 0', 'amount < 3)', '(amount > 0']) {
      expect([filters, (await open(filters)).status]).toEqual([filters, 400]);
      const socket = keep(await subscribeSocket(service.url, await narrowed()));
      socket.send({ type: 'subscribe', entity: 'deals', filters });
      expect(await socket.next()).toMatchObject({ type: 'error', code: 'invalid_message' });
    }
    const either = await open('amount = 5 OR amount = 12');
    for (const amount of [5, 11, 12]) await createRecord(other, DEALS, { title: `${amount}`, amount });
    expect(shown(await nextRecord(either))).toBe('record.created 12');
  });
});

describe.each(['stream', 'subscription'])('a ticket with since, and a %s that names its own,', (kind) => {
  /** The titles of the deals that it shows, up to the last one, which is created once it is open. */
  async function titles(other: TestTenant, named: string, own: string): Promise<string[]> {
    const path = `/api/v1/tenants/${other.slug}/events/tickets`;
    const { ticket } = (await other.post(path, { entities: 'deals', since: named })).body.data;
    const next = kind === 'stream' ? await streamed(other, ticket, own) : await subscribed(ticket, own);
    await createRecord(other, DEALS, { title: 'last' });
    const seen: string[] = [];
    while (seen.at(-1) !== 'last') seen.push(await next());
    return seen;
  }

  async function streamed(other: TestTenant, ticket: string, since: string): Promise<() => Promise<string>> {
    const query = `?${new URLSearchParams({ ticket, since })}`;
    const opened = keep(await openEvents(service.url, other.slug, '', query));
    return async () => (await nextRecord(opened)).data.data.fields.title;
  }

  async function subscribed(ticket: string, since: string): Promise<() => Promise<string>> {
    const socket = keep(await subscribeSocket(service.url, ticket));
    socket.send({ type: 'subscribe', entity: 'deals', since });
    expect(await socket.next()).toEqual({ type: 'subscribed', entity: 'deals' });
    return async () => (await socket.next()).data.title;
  }

  test('begins at the later of the two', async () => {
    const other = await newTenant();
    const cursors: string[] = [];
    for (const title of ['a', 'b', 'c']) {
      cursors.push(await now(other));
      await createRecord(other, DEALS, { title });
    }
    const [first = '', second = '', third = ''] = cursors;
    const found: Record<string, string[]> = {};
    found['earliest, after a'] = await titles(other, second, 'earliest');
    found['earliest, after now'] = await titles(other, '', 'earliest');
    found['before a, after now'] = await titles(other, '', first);
    found['after b, after now'] = await titles(other, '', third);
    found['before a, after a'] = await titles(other, second, first);
    found['after b, after a'] = await titles(other, second, third);
    found['now, after a'] = await titles(other, second, '');
    found['after a, from the earliest on'] = await titles(other, 'earliest', second);
    expect(found).toEqual({
      'earliest, after a': ['b', 'c', 'last'],
      'earliest, after now': ['last'],
      'before a, after now': ['last'],
      'after b, after now': ['last'],
      'before a, after a': ['b', 'c', 'last'],
      'after b, after a': ['c', 'last'],
      'now, after a': ['last'],
      'after a, from the earliest on': ['b', 'c', 'last'],
    });
  });
});

describe('the later of two positions', () => {
  interface Written {
    seq: number;
    xid: bigint;
    endsAt: number;
  }
  const isSeen = ({ snapshot, last }: FeedPosition['seen'], { seq, xid }: Written): boolean =>
    seq <= (last ?? seq) && isSeenIn(parseSnapshot(snapshot), xid);
  const isBefore = ({ seen, cut }: FeedPosition, event: Written): boolean =>
    isSeen(seen, event) || (cut !== null && event.seq <= cut.number && isSeen(cut.until, event));
  const below = (max: number): number => Math.floor(Math.random() * max);

  /** Events numbered in their order, whose transactions began and end in any other; the head at each time. */
  function history(): { events: Written[]; headAt(time: number): FeedHead } {
    const count = 8;
    const xids = Array.from({ length: count }, (_, i) => BigInt(i + 3)).sort(() => Math.random() - 0.5);
    const events = xids.map((xid, i) => ({ seq: i + 1, xid, endsAt: i + 1 + below(5) }));
    const headAt = (time: number): FeedHead => {
      const ended = events.filter(({ endsAt }) => endsAt <= time);
      const xmax = ended.reduce((max, { xid }) => (xid >= max ? xid + 1n : max), 3n);
      const running = events.filter(({ xid, endsAt }) => xid < xmax && endsAt > time).map(({ xid }) => xid);
      const [xmin = xmax] = running.sort((a, b) => Number(a - b));
      const snapshot = `${xmin}:${xmax}:${running.join()}`;
      return { snapshot, floor: 0, last: Math.max(0, ...ended.map(({ seq }) => seq)), at: time };
    };
    return { events, headAt };
  }

  function anyPosition(headAt: (time: number) => FeedHead): FeedPosition {
    const time = below(14);
    const start = Math.random() < 0.1 ? EARLIEST : positionAt(headAt(time));
    if (Math.random() < 0.5) return start;
    return { ...start, cut: { until: headAt(time + below(6)), number: below(10) } };
  }

  test('repeats nothing from before the bound, and skips nothing that neither position has passed', () => {
    for (let i = 0; i < 20_000; i++) {
      const { events, headAt } = history();
      const [position, bound] = [anyPosition(headAt), anyPosition(headAt)];
      const later = laterOf(position, bound);
      const { seen, cut } = later;
      for (const event of events) {
        const [was, bounded, is] = [position, bound, later].map((one) => isBefore(one, event));
        const isRight = is === (was || bounded) || (position.cut !== null && bound.cut !== null && is === bounded);
        const goesOn = cut === null || !isSeen(seen, event) || isSeen(cut.until, event);
        if (!isRight || !goesOn) throw new Error(JSON.stringify({ position, bound, later, seq: event.seq }));
      }
    }
  });
});

describe('a WebSocket subscription', () => {
  test('with since replays and continues live; filters, fields and transitions select', async () => {
    const other = await newTenant();
    const since = await now(other);
    const { id } = await createRecord(other, DEALS, { title: 'a', amount: 1, secret: 's' });
    const socket = keep(await subscribeSocket(service.url, await adminSession(service, other)));
    const filters = 'amount > 10';
    socket.send({ type: 'subscribe', entity: 'deals', since, filters, fields: ['title'], transitions: true });
    expect(await socket.next()).toEqual({ type: 'subscribed', entity: 'deals' });
    await other.patch(`${DEALS}/${id}`, { amount: 11 });
    const entered = await socket.next();
    expect(entered).toMatchObject({
      type: 'record.entered',
      entity: 'deals',
      data: { id, title: 'a' },
      cursor: expect.any(String),
    });
    expect(entered.data).not.toHaveProperty('secret');
    await other.patch(`${DEALS}/${id}`, { amount: 3 });
    expect(await socket.next()).toMatchObject({ type: 'record.left', data: { id } });
    socket.send({ type: 'subscribe', entity: 'deals', since });
    expect(await socket.next()).toEqual({ type: 'subscribed', entity: 'deals' });
    expect(await socket.next()).toMatchObject({ type: 'record.created', data: { id, title: 'a', secret: 's' } });
  });

  test('refuses with invalid_message a selection that cannot be followed', async () => {
    const socket = keep(await subscribeSocket(service.url, await adminSession(service, tenant)));
    const foreign = await now(await newTenant());
    for (const options of [
      { since: 'x' },
      { since: foreign },
      { filters: 'nothing = 1' },
      { filters: 1 },
      { view: 'nobodys' },
      { fields: 1 },
      { fields: Array.from({ length: 300 }, (_, i) => `f${i}`) },
    ]) {
      socket.send({ type: 'subscribe', entity: 'deals', ...options });
      expect(await socket.next()).toEqual({ type: 'error', code: 'invalid_message', message: expect.any(String) });
    }
    socket.send({ type: 'subscribe', entity: 'deals' });
    expect(await socket.next()).toEqual({ type: 'subscribed', entity: 'deals' });
  });
});

async function nextRecord(from: EventStream) {
  for (;;) {
    const next = await from.next();
    if (next.event !== 'connected') return next;
  }
}
