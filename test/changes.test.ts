// The feed of changes: which changes a follower gets, from which cursor, with which rights, and what following costs other
// tenants.
// Contract: feed#the-feed.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import process from 'node:process';
import type { App } from '../src/app.ts';
import { EARLIEST, positionAt, readStep } from '../src/events/feed.ts';
import { feedHeadsOf } from '../src/events/feed-heads.ts';
import { receivedBudget } from '../src/http/bounded-response.ts';
import { openCursor, sealCursor } from '../src/http/changes-cursor.ts';
import { LIMITS } from '../src/limits.ts';
import { newId } from '../src/runtime/ids.ts';
import type { Transaction } from '../src/runtime/postgres.ts';
import { GENERIC_PLANS, type Sql, sql } from '../src/runtime/sql.ts';
import { closeAfterEach } from './support/connections.ts';
import {
  addRole,
  bearer,
  botToken,
  changeRole,
  platformKey,
  publicKey,
  userToken,
  withRole,
} from './support/credentials.ts';
import { createRecord, fields, tenantWithEntities } from './support/entities.ts';
import {
  type Answer,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';
import { connectEvents } from './support/streams.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await newTenant();
});
afterAll(() => service.stop());

const keep = closeAfterEach();

const DEALS = '/api/entities/deals/records';
const TASKS = '/api/entities/tasks/records';

const newTenant = () =>
  tenantWithEntities(
    service,
    ['deals', 'tasks'],
    fields('title text', 'amount integer', 'secret text', 'due datetime'),
  );

interface Page {
  items: Json[];
  nextCursor: string;
  hasMore: boolean;
}

async function page(client: Client, query: Record<string, string | number> = {}): Promise<Page> {
  const answer = await client.get(`/api/changes?${new URLSearchParams(query as Record<string, string>)}`);
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body.data;
}

/** All items after a cursor, in as many pages as necessary, and the cursor after them. */
async function follow(client: Client, since: string, query: Record<string, string | number> = {}): Promise<Page> {
  const items: Json[] = [];
  let cursor = since;
  for (;;) {
    const next = await page(client, { ...query, since: cursor });
    items.push(...next.items);
    cursor = next.nextCursor;
    if (!next.hasMore) return { items, nextCursor: cursor, hasMore: false };
  }
}

async function now(client: Client): Promise<string> {
  return (await page(client)).nextCursor;
}

async function problems(client: Client, query: string): Promise<string[]> {
  const { status, body } = await client.get(`/api/changes?${query}`);
  expect([query, status]).toEqual([query, 400]);
  return body.error.details.map(({ path, message }: Json) => `${path}: ${message}`);
}

const short = ({ event, record_id: id }: Json): string => `${event} ${id}`;
const titles = ({ items }: Page): string[] => items.map(({ data }) => data.title);

describe('a page', () => {
  test('without since there are no items, and a cursor from now on', async () => {
    await createRecord(tenant, DEALS, { title: 'before' });
    for (const query of ['', '?since=']) {
      const { status, body } = await tenant.get(`/api/changes${query}`);
      expect(status).toBe(200);
      expect(body.data).toEqual({ items: [], nextCursor: expect.any(String), hasMore: false });
      expect((await page(tenant, { since: body.data.nextCursor })).items).toEqual([]);
    }
  });

  test('items are the changes after the cursor, as REST shows the records, `{ id }` of a deleted one', async () => {
    const since = await now(tenant);
    const created = await createRecord(tenant, DEALS, { title: 'a', amount: 1 });
    const path = `${DEALS}/${created.id}`;
    const updated = (await tenant.patch(path, { amount: 2 })).body.data;
    expect((await tenant.get(path)).body.data).toEqual(updated);
    await tenant.delete(path);
    const { items, nextCursor } = await page(tenant, { since });
    const whoami = (await tenant.get('/api/auth/whoami')).body.data;
    const item = {
      cursor: expect.any(String),
      id: expect.stringMatching(/^evt_/),
      entity: 'deals',
      record_id: created.id,
      at: expect.any(String),
      triggered_by: 'api',
      actor: whoami.id,
    };
    expect(items).toEqual([
      { ...item, event: 'record.created', version: 1, data: created },
      { ...item, event: 'record.updated', version: 2, data: updated },
      { ...item, event: 'record.deleted', version: 2, data: { id: created.id } },
    ]);
    expect((await page(tenant, { since: nextCursor })).items).toEqual([]);
  });

  test('going on with nextCursor, or with the cursor of an item, shows every change exactly once', async () => {
    const since = await now(tenant);
    const operations = Array.from({ length: 25 }, (_, i) => ({ op: 'create', data: { title: `${i}` } }));
    await tenant.post(`${DEALS}/bulk`, { operations });
    const whole = await follow(tenant, since);
    expect(titles(whole)).toEqual(operations.map(({ data }) => data.title));
    expect((await follow(tenant, since, { limit: 7 })).items.map(short)).toEqual(whole.items.map(short));
    const first = await page(tenant, { since, limit: 25 });
    expect([first.items.length, first.hasMore]).toEqual([25, false]);
    for (const i of [0, 11, 24]) {
      const rest = await follow(tenant, whole.items[i].cursor);
      expect(rest.items.map(short)).toEqual(whole.items.slice(i + 1).map(short));
    }
  });

  test('earliest begins with the oldest change that is kept', async () => {
    const other = await newTenant();
    await createRecord(other, DEALS, { title: 'first' });
    await createRecord(other, TASKS, { title: 'second' });
    expect(titles(await follow(other, 'earliest', { limit: 1 }))).toEqual(['first', 'second']);
  });

  test('entities, events, filters and view select changes; others are skipped', async () => {
    await tenant.post('/api/views', {
      entitySlug: 'deals',
      slug: 'big',
      name: 'Big',
      filterDsl: { validate: [{ condition: 'amount > 10' }] },
    });
    const since = await now(tenant);
    const small = await createRecord(tenant, DEALS, { title: 'small', amount: 1 });
    await createRecord(tenant, DEALS, { title: 'big', amount: 11 });
    await createRecord(tenant, TASKS, { title: 'task', amount: 11 });
    await tenant.patch(`${DEALS}/${small.id}`, { amount: 12 });
    await tenant.delete(`${DEALS}/${small.id}`);
    const events = async (query: Record<string, string>) =>
      (await follow(tenant, since, query)).items.map(({ event, data }) => `${event} ${data.title ?? ''}`.trim());
    expect(await events({ entities: 'tasks, nothing' })).toEqual(['record.created task']);
    expect(await events({ events: 'record.updated,record.deleted' })).toEqual([
      'record.updated small',
      'record.deleted',
    ]);
    const big = ['record.created big', 'record.updated small', 'record.deleted'];
    expect(await events({ entities: 'deals', filters: 'amount > 10' })).toEqual(big);
    expect(await events({ view: 'big' })).toEqual(big);
    expect(await events({ view: 'big', filters: 'title = "small"', entities: 'deals' })).toEqual(big.slice(1));
    expect(await events({ entities: 'nothing' })).toEqual([]);
  });

  test('one response names every problem of the parameters', async () => {
    await tenant.post('/api/entities', {
      name: 'notes',
      fields: [{ key: 'deal', type: 'relation', entity: 'deals', onDelete: 'set_null' }],
    });
    expect(await problems(tenant, 'since=nonsense&events=record.moved,x&filters=a')).toEqual([
      'since: is not a cursor',
      expect.stringContaining('events: has an unknown type: record.moved'),
      expect.stringContaining('events: has an unknown type: x'),
      'filters: needs exactly one entity in entities, or a view',
    ]);
    const [relation] = await problems(tenant, 'entities=notes&filters=deal.title%20%3D%20%22a%22');
    expect(relation).toContain('filters: follows the relation deal');
    expect(await problems(tenant, 'limit=1001&wait=31&filter=x')).toEqual([
      'filter: unknown; did you mean filters?',
      'limit: must be a whole number from 1 to 1000',
      'wait: must be a whole number from 0 to 30',
    ]);
    expect((await problems(tenant, 'entities=deals&filters=nothing%3D1'))[0]).toContain('filters: ');
    expect((await problems(tenant, 'view=big&entities=tasks'))[0]).toContain('the view shows records of deals');
    expect((await tenant.get('/api/changes?view=nobodys')).status).toBe(404);
  });

  test('large records end a page before its bytes do, and every change is still there', async () => {
    const other = await newTenant();
    const since = await now(other);
    const text = 'x'.repeat(900_000);
    for (let i = 0; i < 20; i++) await createRecord(other, DEALS, { title: `${i}`, secret: text });
    const first = await page(other, { since, limit: 1_000 });
    expect(first.hasMore).toBe(true);
    expect(JSON.stringify(first).length).toBeLessThan(LIMITS.response.bytesMax);
    expect(first.items.length).toBeGreaterThan(10);
    const rest = await follow(other, first.nextCursor, { limit: 1_000 });
    expect([...titles(first), ...titles(rest)]).toEqual(Array.from({ length: 20 }, (_, i) => `${i}`));
  }, 60_000);

  test('however many changes a caller may not see, no page stalls other requests, and the visible changes arrive', async () => {
    const other = await newTenant();
    const client = await withRole(service, other, {
      permissions: { '*': ['read'] },
      entities: { deals: { rowFilter: 'amount = 1' } },
    });
    const since = await now(client);
    const { id } = await createRecord(other, DEALS, { title: 'hidden', amount: 0 });
    await service.app.db.slow.rows(sql`
      insert into platform.events (id, xid, tenant_id, entity_id, entity, record_id, type, version, data, created_at,
        updated_at, triggered_by)
      select gen_random_uuid(), pg_current_xact_id(), tenant_id, entity_id, entity, record_id, type, version, data,
        created_at, updated_at, triggered_by
      from platform.events, generate_series(1, 100000)
      where tenant_id = ${other.id}::uuid and record_id = ${id}::uuid`);
    await createRecord(other, DEALS, { title: 'seen', amount: 1 });
    const { result, stallMs } = await measureStall(() => follow(client, since));
    expect(titles(result)).toEqual(['seen']);
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
  }, 120_000);
});

describe('a cursor', () => {
  test('is opaque, and refused where it is nonsense, of another tenant, or older than the events that are kept', async () => {
    const cursor = await now(tenant);
    expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(Buffer.from(cursor, 'base64url').toString('latin1')).not.toContain(tenant.id);
    const other = await newTenant();
    const foreign = await other.get(`/api/changes?since=${cursor}`);
    expect([foreign.status, foreign.body.error.code]).toEqual([403, 'FORBIDDEN']);
    const changed = `${cursor.slice(0, -6)}${cursor.endsWith('AAAAAA') ? 'BBBBBB' : 'AAAAAA'}`;
    for (const since of [changed, 'a', 'null', '%20', 'Earliest', 'x'.repeat(6_000)]) {
      expect(await problems(tenant, `since=${since}`)).toEqual(['since: is not a cursor']);
    }
    const head = await feedHeadsOf(service.app).take();
    const { rightsKey } = openCursor(service.app, { id: tenant.id, settings: {} }, cursor);
    const of = (days: number) =>
      sealCursor(service.app, tenant.id, {
        rightsKey,
        position: positionAt({ ...head, at: Date.now() - days * 86_400_000 }),
      });
    const old = await tenant.get(`/api/changes?since=${of(31)}`);
    expect([old.status, old.body.error.code]).toEqual([410, 'GONE']);
    expect((await tenant.get(`/api/changes?since=${of(29)}`)).status).toBe(200);
  });

  test('outlives the change of the JWT secret while the old one is configured', async () => {
    const cursor = await now(tenant);
    const app = (jwtSecrets: string[]) => ({ ...service.app, config: { ...service.app.config, jwtSecrets } });
    const { jwtSecrets } = service.app.config;
    expect(
      openCursor(app(['another-secret', ...jwtSecrets]), { id: tenant.id, settings: {} }, cursor).position.seen
        .snapshot,
    ).toMatch(/^\d+:/);
    expect(() => openCursor(app(['another-secret']), { id: tenant.id, settings: {} }, cursor)).toThrow(
      'is not a cursor',
    );
  });

  test('is in the header of every list, view, single read, aggregate and export; a follower from it misses nothing', async () => {
    const record = await createRecord(tenant, DEALS, { title: 'a', amount: 1 });
    await tenant.post('/api/views', { entitySlug: 'deals', slug: 'all', name: 'All' });
    const paths = [
      DEALS,
      `${DEALS}/${record.id}`,
      `${DEALS}/aggregate?metrics=count`,
      `${DEALS}/export`,
      '/api/views/all/records',
      `/api/views/all/records/${record.id}`,
    ];
    const etag = (await tenant.get(`${DEALS}/${record.id}`)).headers.get('etag') ?? '';
    const answers: Answer[] = [await tenant.get(`${DEALS}/${record.id}`, { 'if-none-match': etag })];
    expect(answers[0]?.status).toBe(304);
    for (const path of paths) answers.push(await tenant.get(path));
    const later = await createRecord(tenant, DEALS, { title: 'later' });
    for (const { headers } of answers) {
      const { items } = await follow(tenant, headers.get('changes-cursor') ?? '');
      expect(items.at(-1)).toMatchObject({ event: 'record.created', record_id: later.id });
    }
  });

  test('a public key needs the scope channels:read, for the feed as for the header', async () => {
    const role = await addRole(service, tenant, { permissions: { deals: ['read'] } });
    const both = service.anonymous.with({ 'x-public-key': await publicKey(service, tenant, role.id) });
    const input = { label: 'a', roleId: role.id, scopes: ['records:read'], ttlDays: 1 };
    const { key } = (await tenant.post('/api/auth/public-keys', input)).body.data;
    const reads = service.anonymous.with({ 'x-public-key': key });
    const since = (await both.get(DEALS)).headers.get('changes-cursor') ?? '';
    await createRecord(tenant, DEALS, { title: 'public' });
    expect(titles(await follow(both, since))).toEqual(['public']);
    expect((await reads.get(DEALS)).headers.has('changes-cursor')).toBe(false);
    expect((await reads.get('/api/changes')).status).toBe(403);
    const channels = (await tenant.post('/api/auth/public-keys', { ...input, scopes: ['channels:read'] })).body.data
      .key;
    const only = service.anonymous.with({ 'x-public-key': channels });
    const from = await now(only);
    await createRecord(tenant, DEALS, { title: 'channel' });
    expect(titles(await follow(only, from))).toEqual(['channel']);
  });
});

describe('what a follower sees', () => {
  test('never an id or a value outside its row filter, never a hidden field', async () => {
    const other = await newTenant();
    const client = await withRole(service, other, {
      permissions: { deals: ['read'] },
      entities: { deals: { rowFilter: 'amount > 10 AND secret != "x"', excludeFields: ['secret'] } },
    });
    const since = await now(client);
    const hidden = await createRecord(other, DEALS, { title: 'hidden-title', amount: 1, secret: 'hidden-value' });
    const seen = await createRecord(other, DEALS, { title: 'seen', amount: 11, secret: 'hidden-value' });
    await createRecord(other, TASKS, { title: 'hidden-title' });
    await other.patch(`${DEALS}/${hidden.id}`, { title: 'hidden-title 2' });
    await other.patch(`${DEALS}/${seen.id}`, { amount: 2 });
    await other.delete(`${DEALS}/${hidden.id}`);
    await other.patch(`${DEALS}/${seen.id}`, { amount: 12 });
    await other.delete(`${DEALS}/${seen.id}`);
    const { items } = await follow(client, since);
    expect(items.map(short)).toEqual(['created', 'updated', 'deleted'].map((type) => `record.${type} ${seen.id}`));
    expect(items[0].data).toEqual({ ...seen, secret: undefined });
    const text = JSON.stringify(items);
    for (const secret of [hidden.id, 'hidden-title', 'hidden-value', 'secret', 'tasks'])
      expect(text).not.toContain(secret);
  });

  test('$now is the time of the event, and a relation is followed as it is when it is read', async () => {
    const other = await newTenant();
    await other.post('/api/entities', {
      name: 'notes',
      fields: [
        { key: 'deal', type: 'relation', entity: 'deals', onDelete: 'set_null' },
        { key: 'title', type: 'text' },
      ],
    });
    const timed = await withRole(service, other, {
      permissions: { deals: ['read'] },
      entities: { deals: { rowFilter: 'due > $now' } },
    });
    const related = await withRole(service, other, {
      permissions: { notes: ['read'] },
      entities: { notes: { rowFilter: 'deal.amount > 10' } },
    });
    const [since, sinceRelated] = [await now(timed), await now(related)];
    const due = new Date(Date.now() + 1_500).toISOString();
    const deal = await createRecord(other, DEALS, { title: 'soon', due, amount: 1 });
    await createRecord(other, '/api/entities/notes/records', { title: 'note', deal: deal.id });
    expect((await follow(related, sinceRelated)).items).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, Date.parse(due) - Date.now() + 5));
    expect((await timed.get(DEALS)).body.data.total).toBe(0);
    expect(titles(await follow(timed, since))).toEqual(['soon']);
    await other.patch(`${DEALS}/${deal.id}`, { amount: 11 });
    expect(titles(await follow(related, sinceRelated))).toEqual(['note']);
  });

  test('a related record that has been deleted shows nothing, not even under NOT, unless another condition does', async () => {
    const other = await newTenant();
    const relation = { key: 'deal', type: 'relation', entity: 'deals', onDelete: 'cascade' };
    await other.post('/api/entities', { name: 'notes', fields: [relation, { key: 'title', type: 'text' }] });
    const rowFilters = [
      'NOT (deal.secret = "yes")',
      'NOT (deal.secret = "yes" AND title != "own")',
      'title = "own" OR NOT (deal.secret = "yes" AND createdAt <= $now)',
    ];
    const clients: Client[] = [];
    for (const rowFilter of rowFilters)
      clients.push(
        await withRole(service, other, { permissions: { notes: ['read'] }, entities: { notes: { rowFilter } } }),
      );
    const since = await now(other);
    const deal = await createRecord(other, DEALS, { secret: 'yes' });
    const notes = '/api/entities/notes/records';
    for (const title of ['hidden', 'own']) await createRecord(other, notes, { title, deal: deal.id });
    await createRecord(other, notes, { title: 'without' });
    expect((await other.delete(`${DEALS}/${deal.id}`)).status).toBe(200);
    const shown = [['without'], ['own', 'without'], ['own', 'without']];
    for (const [i, client] of clients.entries()) {
      const { items } = await follow(client, since, { transitions: 'true' });
      const created = items.filter(({ event }) => event === 'record.created');
      expect([rowFilters[i], created.map(({ data }) => data.title)]).toEqual([
        rowFilters[i] as string,
        shown[i] as string[],
      ]);
      expect(JSON.stringify(items)).not.toContain('hidden');
      const deleted = (await client.get(`${notes}/deleted`)).body.data.items.map(({ title }: Json) => title);
      expect([rowFilters[i], deleted]).toEqual([rowFilters[i] as string, (shown[i] as string[]).slice(0, -1)]);
      expect(items.filter(({ event }) => event === 'record.deleted')).toHaveLength(deleted.length);
    }
  });

  test('a role may follow a view of an entity that it may not read, within its own restrictions', async () => {
    const other = await newTenant();
    const filterDsl = { validate: [{ condition: 'amount > 10' }] };
    await other.post('/api/views', { entitySlug: 'deals', slug: 'big', name: 'Big', filterDsl });
    const client = await withRole(service, other, {
      permissions: { 'view:big': ['read'] },
      entities: { deals: { excludeFields: ['secret'] } },
    });
    const since = await now(client);
    await createRecord(other, DEALS, { title: 'big', amount: 11, secret: 's' });
    await createRecord(other, DEALS, { title: 'small', amount: 1 });
    const { items } = await follow(client, since, { view: 'big' });
    expect(items.map(({ data }) => [data.title, data.secret])).toEqual([['big', undefined]]);
    expect((await follow(client, since)).items).toEqual([]);
    const { status } = await (await withRole(service, other, { permissions: { deals: ['read'] } })).get(
      '/api/changes?view=big',
    );
    expect(status).toBe(403);
  });

  test('rights changed since the cursor was given are an item rights.changed first, once', async () => {
    const other = await newTenant();
    const role = await addRole(service, other, { permissions: { deals: ['read'] } });
    const client = bearer(service, await userToken(service, other, role.name));
    const since = await now(client);
    await createRecord(other, TASKS, { title: 'task' });
    await changeRole(service, other, role.name, { permissions: { deals: ['read'], tasks: ['read'] } });
    const first = await page(client, { since, limit: 1 });
    expect(first.items.map(({ event, entity, data }) => [event, entity, data])).toEqual([['rights.changed', null, {}]]);
    expect(first.hasMore).toBe(true);
    expect(titles(await follow(client, first.nextCursor))).toEqual(['task']);
    expect(titles(await follow(client, first.items[0].cursor))).toEqual(['task']);
    // What the role may write does not matter.
    const later = await now(client);
    await changeRole(service, other, role.name, { permissions: { deals: ['read', 'update'], tasks: ['read'] } });
    expect((await follow(client, later)).items).toEqual([]);
  });

  test('a field renamed, retyped or dropped, and an entity dropped, are items definition.changed for its readers alone', async () => {
    const other = await newTenant();
    const readers = [
      await withRole(service, other, { permissions: { deals: ['read'] } }),
      bearer(service, await botToken(service, other, { deals: ['read'] })),
      bearer(service, await platformKey(service, other, 'reader', { deals: ['read'] })),
    ];
    const stranger = await withRole(service, other, { permissions: { tasks: ['read'] } });
    const stream = keep(await connectEvents(service.url, other.slug, other.key));
    const from = await Promise.all([other, stranger, ...readers].map(now));
    const changes = [
      await other.patch('/api/entities/deals/fields/title', { key: 'heading' }),
      await other.patch('/api/entities/deals/fields/amount', { type: 'text' }),
      await other.delete('/api/entities/deals/fields/secret'),
      await other.patch('/api/entities/deals/fields/due', { label: 'Due' }),
    ];
    expect(changes.map(({ status, text }) => (status === 200 ? status : text))).toEqual([200, 200, 200, 200]);
    const record = await createRecord(other, DEALS, { heading: 'n', amount: 'many' });
    // An event of an entity that has been dropped meanwhile is not streamed.
    const streamed = [await stream.next()];
    await other.delete('/api/entities/deals?confirm=deals');
    const changed = {
      event: 'definition.changed',
      entity: 'deals',
      record_id: null,
      version: null,
      data: { entity: 'deals' },
    };
    const [owner, nothing, ...seen] = await Promise.all(
      [other, stranger, ...readers].map((client, i) => follow(client, from[i] as string)),
    );
    expect(owner?.items.map(({ event }) => event)).toEqual(Array(4).fill('definition.changed'));
    expect(owner?.items[0]).toMatchObject(changed);
    expect(nothing?.items).toEqual([]);
    for (const { items } of seen) {
      // The changes before the drop would be shown to them if they might still read the entity.
      expect(items.map(({ event }) => event)).toEqual(['rights.changed', 'definition.changed']);
    }
    await createRecord(other, TASKS, { title: 'last' });
    streamed.push(await stream.next());
    const types = streamed.map(({ event, data }) => `${event} ${data.entity}`);
    expect(types).toEqual(['record.created deals', 'record.created tasks']);
    expect(record.heading).toBe('n');
  });
});

test('changes that a row filter judged before its hidden field got another type are not shown: followers read again', async () => {
  const other = await newTenant();
  const limited = {
    permissions: { deals: ['read' as const] },
    entities: { deals: { excludeFields: ['secret'], rowFilter: 'secret != "yes"' } },
  };
  const { name } = await addRole(service, other, limited);
  const client = bearer(service, await userToken(service, other, name));
  const since = await now(client);
  await createRecord(other, DEALS, { title: 'hidden', secret: 'yes' });
  await changeRole(service, other, name, { permissions: { deals: ['read'] } });
  const retyped = await other.patch('/api/entities/deals/fields/secret', { type: 'select', options: ['yes', 'no'] });
  expect(retyped.status).toBe(200);
  await changeRole(service, other, name, limited);
  await createRecord(other, DEALS, { title: 'hidden', secret: 'yes' });
  const { id } = await createRecord(other, DEALS, { title: 'seen' });
  const queries: Record<string, string>[] = [{}, { transitions: 'true' }];
  for (const query of queries) {
    const { items } = await follow(client, since, query);
    expect(items.map(short)).toEqual(['rights.changed null', `record.created ${id}`]);
  }
});

describe('a view that is followed', () => {
  const rising = {
    entitySlug: 'deals',
    slug: 'rising',
    name: 'Rising',
    filterDsl: { validate: [{ condition: 'amount > 10' }] },
  };
  const viewers = async (other: TestTenant): Promise<Client> =>
    withRole(service, other, { permissions: { 'view:rising': ['read'], tasks: ['read'] } });

  test('is an item definition.changed once its conditions change, only for those who follow it', async () => {
    const other = await newTenant();
    for (const slug of ['rising', 'other']) {
      expect((await other.post('/api/views', { ...rising, slug })).status).toBe(201);
    }
    const viewer = await viewers(other);
    await createRecord(other, DEALS, { title: 'low', amount: 5 });
    await createRecord(other, DEALS, { title: 'high', amount: 20 });
    const stream = keep(await connectEvents(service.url, other.slug, other.key, '?view=rising&since='));
    const [from, ofOwner] = await Promise.all([viewer, other].map(now));
    const waiting = viewer.get(`/api/changes?since=${from}&view=rising&wait=30`);
    // Changes of other members announce nothing, and neither does the same condition again.
    for (const body of [{ name: 'Risen' }, { filterDsl: rising.filterDsl }]) {
      expect((await other.put('/api/views/rising', body)).status).toBe(200);
    }
    const changed = { filterDsl: { validate: [{ condition: 'amount < 10' }] } };
    expect((await other.put('/api/views/rising', changed)).status).toBe(200);
    await createRecord(other, DEALS, { title: 'lower', amount: 1 });
    const first = (await waiting).body.data.items[0];
    expect(first).toMatchObject({
      event: 'definition.changed',
      entity: 'deals',
      record_id: null,
      data: { entity: 'deals' },
    });
    const { items } = await follow(viewer, from as string, { view: 'rising' });
    expect(items.map(({ event }) => event)).toEqual(['definition.changed', 'record.created']);
    expect([(await stream.next()).event, (await stream.next()).event]).toEqual([
      'definition.changed',
      'record.created',
    ]);
    for (const query of [{}, { view: 'other' }, { entities: 'deals' }] as Record<string, string>[]) {
      const seen = await follow(other, ofOwner as string, query);
      expect(seen.items.filter(({ event }) => event === 'definition.changed')).toEqual([]);
    }
    expect((await follow(viewer, from as string)).items).toEqual([]);
  });

  test('and deleted and created again under its name in between, for an admin, is one too', async () => {
    const other = await newTenant();
    await other.post('/api/views', rising);
    const from = await now(other);
    expect((await other.delete('/api/views/rising')).status).toBe(200);
    expect((await other.post('/api/views', { ...rising, entitySlug: 'tasks' })).status).toBe(201);
    const { items } = await follow(other, from, { view: 'rising' });
    expect(items.map(({ event, entity }) => [event, entity])).toEqual([['definition.changed', 'tasks']]);
  });
});

describe('transitions', () => {
  test('an update that moves a record in or out is record.entered or record.left, as that caller sees it', async () => {
    const other = await newTenant();
    const restricted = await withRole(service, other, {
      permissions: { deals: ['read'] },
      entities: { deals: { rowFilter: 'secret = "mine"', excludeFields: ['secret'] } },
    });
    const [since, sinceRestricted] = [await now(other), await now(restricted)];
    const { id } = await createRecord(other, DEALS, { title: 'a', amount: 1, secret: 'theirs' });
    const path = `${DEALS}/${id}`;
    const steps = [
      { amount: 11 },
      { secret: 'mine' },
      { title: 'b' },
      { amount: null },
      { secret: null },
      { title: 'c' },
    ];
    for (const step of steps) await other.patch(path, step);
    await other.patch(path, { amount: 12, secret: 'mine' });
    await other.delete(path);
    const events = async (client: Client, from: string, query: Record<string, string>) =>
      (await follow(client, from, query)).items.map(
        ({ event, data }) => `${event} ${data.title ?? Object.keys(data).join()}`,
      );
    const filters = { entities: 'deals', filters: 'amount > 10', transitions: 'true' };
    expect(await events(other, since, filters)).toEqual([
      'record.entered a',
      'record.updated a',
      'record.updated b',
      'record.left id',
      'record.entered c',
      'record.deleted id',
    ]);
    expect(await events(restricted, sinceRestricted, { transitions: 'true' })).toEqual([
      'record.entered a',
      'record.updated b',
      'record.updated b',
      'record.left id',
      'record.entered c',
      'record.deleted id',
    ]);
    expect(await events(other, since, { ...filters, events: 'record.left' })).toEqual(['record.left id']);
    const all = [
      'created a',
      ...Array(2).fill('updated a'),
      ...Array(3).fill('updated b'),
      ...Array(2).fill('updated c'),
    ];
    expect(await events(other, since, { transitions: 'true' })).toEqual(
      [...all, 'deleted id'].map((each) => `record.${each}`),
    );
    expect(await problems(other, 'events=record.left')).toEqual(['events: record.left needs transitions=true']);
  });

  test('the image before is rebuilt for updates of every kind: single, in bulk, by rules, by cleared relations', async () => {
    const other = await newTenant();
    await other.post('/api/entities', {
      name: 'notes',
      fields: [
        { key: 'title', type: 'text' },
        { key: 'deal', type: 'relation', entity: 'deals', onDelete: 'set_null' },
        { key: 'done', type: 'boolean' },
      ],
    });
    const deal = await createRecord(other, DEALS, { title: 'd' });
    const path = '/api/entities/notes/records';
    const note = await createRecord(other, path, { title: 'n', deal: deal.id, done: false });
    const since = await now(other);
    await other.post(`${path}/bulk`, { operations: [{ op: 'update', id: note.id, data: { done: true } }] });
    await other.patch(`${path}/${note.id}`, { title: 'm' });
    await other.delete(`${DEALS}/${deal.id}`);
    const left = async (filters: string) =>
      (await follow(other, since, { entities: 'notes', filters, transitions: 'true' })).items.map(({ event }) => event);
    expect(await left('done = false')).toEqual(['record.left']);
    expect(await left('title = n')).toEqual(['record.updated', 'record.left']);
    expect(await left(`deal = "${deal.id}"`)).toEqual(['record.updated', 'record.updated', 'record.left']);
    expect(await left(`updatedAt = "${note.updatedAt}"`)).toEqual(['record.left']);
    expect(await left('deal = null')).toEqual(['record.entered']);
  });
});

describe('a long poll', () => {
  test('answers as soon as there is a change that the caller sees, and at its end without items', async () => {
    const other = await newTenant();
    const client = await withRole(service, other, { permissions: { deals: ['read'] } });
    const since = await now(client);
    const waiting = page(client, { since, wait: 30 });
    await createRecord(other, TASKS, { title: 'hidden' });
    await createRecord(other, DEALS, { title: 'seen' });
    const first = await waiting;
    expect(titles(first)).toEqual(['seen']);
    const empty = await page(client, { since: first.nextCursor, wait: 1 });
    expect([empty.items, empty.hasMore]).toEqual([[], false]);
    await createRecord(other, DEALS, { title: 'next' });
    expect(titles(await page(client, { since: empty.nextCursor, wait: 30 }))).toEqual(['next']);
  }, 20_000);

  test('answers with rights.changed when the rights change, and with 401 when the credential ends', async () => {
    const other = await newTenant();
    const role = await addRole(service, other, { permissions: { deals: ['read'] } });
    const client = bearer(service, await userToken(service, other, role.name));
    const waiting = page(client, { since: await now(client), wait: 30 });
    await settled();
    await changeRole(service, other, role.name, { permissions: {} });
    expect((await waiting).items.map(({ event }) => event)).toEqual(['rights.changed']);
    const { id, key } = (await other.post('/api/keys', { label: 'second' })).body.data;
    const second = service.anonymous.with({ 'x-api-key': key });
    const refused = second.get(`/api/changes?wait=30&since=${await now(second)}`);
    await settled();
    await other.delete(`/api/keys/${id}`);
    expect((await refused).status).toBe(401);
  }, 20_000);

  test('hundreds of one tenant wait at no cost for another, and all get the change', async () => {
    const [many, few] = [await newTenant(), await newTenant()];
    const since = await now(many);
    const polls = Array.from({ length: 200 }, () => page(many, { since, wait: 30 }));
    const other = page(few, { since: await now(few), wait: 30 });
    await settled();
    const { stallMs } = await measureStall(async () => {
      await createRecord(few, DEALS, { title: 'few' });
      expect(titles(await other)).toEqual(['few']);
      await createRecord(many, DEALS, { title: 'many' });
      expect((await Promise.all(polls)).map(titles)).toEqual(Array(200).fill(['many']));
    });
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
  }, 60_000);
});

describe('the position', () => {
  // Only a real server runs transactions beside each other.
  const isReal = (process.env.DATABASE_URL ?? '') !== '';

  test('a change that commits after others with higher numbers is not missed', async () => {
    if (!isReal) return;
    const other = await newTenant();
    const since = await now(other);
    const { id } = await createRecord(other, DEALS, { title: 'first' });
    const heads = feedHeadsOf(service.app);
    let cursor = (await follow(other, since)).nextCursor;
    const held = Promise.withResolvers<void>();
    const drawn = Promise.withResolvers<void>();
    const late = service.app.db.begin(async (tx) => {
      await tx.rows(copyOf(id));
      drawn.resolve();
      await held.promise;
    });
    await drawn.promise;
    const seen: string[] = [];
    for (let i = 0; i < 5; i++) {
      await createRecord(other, DEALS, { title: `${i}` });
      await heads.take();
      const next = await follow(other, cursor, { limit: 1 });
      seen.push(...titles(next));
      cursor = next.nextCursor;
    }
    held.resolve();
    await late;
    const rest = await follow(other, cursor);
    expect([...seen, ...titles(rest)]).toEqual(['0', '1', '2', '3', '4', 'first']);
    // Once everything has ended, a head has a floor.
    for (let i = 0; i < 50 && (await heads.take()).floor === 0; i++) await settled();
    expect((await heads.take()).floor).toBeGreaterThan(0);
  });

  test('a transaction whose id is not below the snapshot of a head keeps that head from being a floor', async () => {
    if (!isReal) return;
    const other = await newTenant();
    const { id } = await createRecord(other, DEALS, { title: 'first' });
    const since = await now(other);
    const heads = feedHeadsOf(service.app);
    // The earlier transaction ends first: its snapshot's end is the later one's id, which runs on with a lower number.
    const [ids, lower, higher, end] = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
    const early = service.app.db.begin(async (tx) => {
      await tx.rows(sql`select pg_current_xact_id()`);
      ids?.resolve();
      await lower?.promise;
      await tx.rows(copyOf(id));
    });
    await ids?.promise;
    const late = service.app.db.begin(async (tx) => {
      await tx.rows(copyOf(id));
      lower?.resolve();
      await higher?.promise;
      await end?.promise;
    });
    await early;
    const from = await follow(other, since);
    for (let i = 0; i < 3; i++) await heads.take();
    const between = await follow(other, from.nextCursor);
    higher?.resolve();
    end?.resolve();
    await late;
    const rest = await follow(other, between.nextCursor);
    expect([from.items.length, between.items.length, rest.items.length]).toEqual([1, 0, 1]);
  });

  test('a page is read by the index of its tenant, whatever the statistics say', async () => {
    const { app } = service;
    const plans: string[] = [];
    const [many, few] = [newId(), newId()];
    const addEvents = (tx: Transaction, tenantId: string, count: number) =>
      tx.rows(sql`
        insert into platform.events (id, tenant_id, type, triggered_by)
        select gen_random_uuid(), ${tenantId}::uuid, 'record.updated', 'api' from generate_series(1, ${count}::int)`);
    const explained = app.db.slow.begin(async (tx) => {
      // All events are of one tenant when the statistics are taken.
      await tx.rows(sql`delete from platform.events`);
      await addEvents(tx, many, 5_000);
      await tx.exec('analyze platform.events');
      await addEvents(tx, few, 5);
      await tx.rows(sql`select ${GENERIC_PLANS}`);
      const rows = async (statement: Sql): Promise<never[]> => {
        const plan = await tx.rows<{ 'QUERY PLAN': string }>(sql`explain ${statement}`);
        plans.push(plan.map((line) => line['QUERY PLAN']).join('\n'));
        return [];
      };
      const using = { ...app, db: { ...app.db, rows } } as unknown as App;
      const until = { snapshot: '1:1:', floor: 0, last: 1e12, at: Date.now() };
      const size = { events: 50, bytes: 1e6, atLeast: 1 } as const;
      await readStep(using, few, EARLIEST, until, size, receivedBudget(), '2000-01-01T00:00:00Z');
      throw new Error('rolled back');
    });
    await expect(explained).rejects.toThrow('rolled back');
    expect(plans).toHaveLength(1);
    const scans = plans.flatMap((plan) => plan.match(/\w+ Scan .*on events\w*/g) ?? []);
    expect(scans.length).toBeGreaterThan(1);
    for (const scan of scans) expect(scan).toMatch(/^Index Scan using \w*tenant\w*seq_idx/);
  });

  const copyOf = (recordId: string) => sql`
    insert into platform.events (id, xid, tenant_id, entity_id, entity, record_id, type, version, data, created_at,
      updated_at, triggered_by)
    select gen_random_uuid(), pg_current_xact_id(), tenant_id, entity_id, entity, record_id, 'record.updated', 2, data,
      created_at, updated_at, triggered_by
    from platform.events where record_id = ${recordId}::uuid and type = 'record.created'`;
});

/** Gives requests time to begin to wait; the tests do not depend on it. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));
