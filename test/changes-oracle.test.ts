// Followers can learn nothing of what they may not see, neither from cursors (their content and length), nor from pages (their
// number, `hasMore`), nor from the times at which long polls end. Two callers of two tenants see the same changes, but in one of
// the tenants much more happens.
// Contract: feed#what-a-follower-sees, feed#cursors, feed#long-polls.
import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import { openCursor, sealCursor } from '../src/http/changes-cursor.ts';
import { Connection } from '../src/runtime/postgres/connection.ts';
import { sql } from '../src/runtime/sql.ts';
import { addRole, platformKey, withRole } from './support/credentials.ts';
import { createRecord, fields, tenantWithEntities } from './support/entities.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents } from './support/streams.ts';

const NOTES = '/api/entities/notes/records';
const VAULT = '/api/entities/vault/records';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

interface World {
  owner: TestTenant;
  reader: Client;
  since: string;
}

/** A tenant, and a reader who sees only its open notes, without their secrets. */
async function newWorld(): Promise<World> {
  const owner = await tenantWithEntities(
    service,
    ['notes', 'vault'],
    fields('title text', 'secret text', 'open boolean'),
  );
  const reader = await withRole(service, owner, {
    permissions: { notes: ['read'] },
    entities: { notes: { rowFilter: 'open = true', excludeFields: ['secret'] } },
  });
  return { owner, reader, since: (await reader.get('/api/changes')).body.data.nextCursor };
}

async function goOn({ owner }: World, count: number): Promise<void> {
  const hidden = Array.from({ length: count }, (_, i) => ({ title: `hidden ${i}`, secret: 'x'.repeat(i * 20) }));
  const create = hidden.map((data) => ({ op: 'create', data }));
  for (const path of [NOTES, VAULT]) {
    expect((await owner.post(`${path}/bulk`, { operations: create })).status).toBe(200);
    const { id } = await createRecord(owner, path, { title: 'hidden' });
    await owner.patch(`${path}/${id}`, { secret: 'hidden' });
    await owner.delete(`${path}/${id}`);
  }
}

/** What a follower can observe of its pages, except ids, times and the cursors themselves. */
async function pagesOf({ reader, since }: World, query: string): Promise<Json[]> {
  const pages: Json[] = [];
  for (let [cursor, hasMore] = [since, true]; hasMore; ) {
    const { status, body } = await reader.get(`/api/changes?since=${cursor}&${query}`);
    const { items, nextCursor } = body.data;
    [cursor, hasMore] = [nextCursor, body.data.hasMore];
    const told = items.map((item: Json) => [item.event, item.version, item.data.title, item.cursor.length]);
    pages.push([status, hasMore, nextCursor.length, told]);
  }
  return pages;
}

test('pages, their number and the lengths of cursors are the same, whatever hidden changes happen', async () => {
  const [quiet, busy] = [await newWorld(), await newWorld()];
  for (let i = 0; i < 7; i++) {
    await goOn(busy, 40);
    for (const { owner } of [quiet, busy]) {
      const { id } = await createRecord(owner, NOTES, { title: `${i}`, open: true, secret: 'a' });
      await owner.patch(`${NOTES}/${id}`, { title: `${i} again` });
      if (i % 3 === 0) await owner.patch(`${NOTES}/${id}`, { open: false });
    }
  }
  await goOn(busy, 40);
  for (const query of [
    'limit=1',
    'limit=7',
    'limit=14',
    'limit=1000',
    'limit=5&transitions=true',
    'events=record.deleted',
  ]) {
    expect([query, await pagesOf(busy, query)]).toEqual([query, await pagesOf(quiet, query)]);
  }
  const headers = [quiet, busy].map(
    async ({ reader }) => (await reader.get(NOTES)).headers.get('changes-cursor')?.length,
  );
  const [first, second] = await Promise.all(headers);
  expect(first).toBe(second as number);
});

test('large values that a page does not show never refuse it: neither hidden values, nor those of deleted records', async () => {
  const { owner, reader, since } = await newWorld();
  const role = { permissions: { notes: ['read' as const] }, entities: { notes: { excludeFields: ['secret'] } } };
  const { name } = await addRole(service, owner, role);
  const key = await platformKey(service, owner, name, role.permissions);
  const opened = (await owner.get('/api/changes')).body.data.nextCursor;
  const { id } = await createRecord(owner, NOTES, { title: 'changed', open: true });
  // More than a response may receive, in updates with both images and in deletions.
  const large = 'x'.repeat(900_000);
  for (let i = 0; i < 25; i++) {
    expect((await owner.patch(`${NOTES}/${id}`, { secret: `${i}${large}` })).status).toBe(200);
  }
  const titles = Array.from({ length: 40 }, (_, i) => `deleted ${i}`);
  for (const title of titles) {
    const record = await createRecord(owner, NOTES, { title, open: true, secret: large });
    expect((await owner.delete(`${NOTES}/${record.id}`)).status).toBe(200);
  }
  const count = 1 + 25 + 2 * titles.length;
  const own = await follow(owner, opened, 'limit=100&events=record.deleted');
  expect(own).toHaveLength(titles.length);
  const seen = await follow(reader, since, 'limit=100');
  expect(seen).toHaveLength(count);
  expect(seen.filter((event) => event === 'record.deleted')).toHaveLength(titles.length);
  const stream = await connectEvents(service.url, owner.slug, key, '?since=earliest');
  const streamed: Json[] = [];
  while (streamed.length < count) streamed.push(await stream.next());
  stream.close();
  const deleted = streamed.filter(({ event }) => event === 'record.deleted');
  expect(deleted.map(({ data }) => data.data.fields)).toEqual(titles.map((title) => ({ title, open: true })));
}, 180_000);

test('requests that scan many events wait before they read them: none breaks a connection that others would have to open again', async () => {
  const { owner } = await newWorld();
  const since = (await owner.get('/api/changes')).body.data.nextCursor;
  const create = Array.from({ length: 500 }, () => ({ op: 'create', data: { title: 'x'.repeat(1_000), open: true } }));
  for (let i = 0; i < 6; i++) expect((await owner.post(`${NOTES}/bulk`, { operations: create })).status).toBe(200);
  const broken = spyOn(Connection.prototype, 'fail');
  const filters = encodeURIComponent('title contains "absent"');
  const query = `since=${since}&limit=1000&entities=notes&filters=${filters}`;
  const pages = await Promise.all(Array.from({ length: 8 }, () => owner.get(`/api/changes?${query}`)));
  expect(pages.map(({ status, body }) => [status, body.data.items])).toEqual(Array(8).fill([200, []]));
  expect(broken).not.toHaveBeenCalled();
  broken.mockRestore();
});

/** The types of all items after the cursor; each page is a 200. */
async function follow(client: Client, since: string, query: string): Promise<string[]> {
  const types: string[] = [];
  for (let [cursor, hasMore] = [since, true]; hasMore; ) {
    const { status, body, text } = await client.get(`/api/changes?since=${cursor}&${query}`);
    expect([status, text.slice(0, 300)]).toEqual([200, expect.any(String)]);
    types.push(...body.data.items.map(({ event }: Json) => event));
    [cursor, hasMore] = [body.data.nextCursor, body.data.hasMore];
  }
  return types;
}

test('a change of the definition of a field that one may not see is no change', async () => {
  const { owner } = await newWorld();
  const seeing = await withRole(service, owner, { permissions: { notes: ['read'] } });
  const [listing, hiding] = await Promise.all(
    [{ fields: ['title'] }, { excludeFields: ['secret', 'extra', 'more'] }].map((notes) =>
      withRole(service, owner, { permissions: { notes: ['read'] }, entities: { notes } }),
    ),
  );
  const readers = [seeing, listing, hiding] as Client[];
  const start = await Promise.all(
    readers.map(async (reader) => (await reader.get('/api/changes')).body.data.nextCursor),
  );
  const path = '/api/entities/notes/fields';
  await createRecord(owner, NOTES, { title: 'a', secret: '5' });
  const extra = { key: 'extra', type: 'integer', required: true, default: 1 };
  for (const { status, text } of [
    await owner.patch(`${path}/secret`, { type: 'integer' }),
    await owner.post(path, extra),
    await owner.patch(`${path}/extra`, { required: false }),
    await owner.delete(`${path}/secret?confirm=secret`),
  ]) {
    expect(status, text).toBeLessThan(300);
  }
  const seen = async (): Promise<string[][]> =>
    Promise.all(
      readers.map(async (reader, i) => {
        const { items } = (await reader.get(`/api/changes?since=${start[i]}`)).body.data;
        return items.map(({ event }: Json) => event);
      }),
    );
  const changed = 'definition.changed';
  const both = ['record.created'];
  expect(await seen()).toEqual([[...both, changed, changed, changed], both, both]);
  // A field that they see, under each of its keys.
  await owner.patch(`${path}/title`, { key: 'heading' });
  for (const events of await seen()) expect(events.at(-1)).toBe(changed);
  await owner.delete(`${path}/heading?confirm=heading`);
  const [, ofListing, ofHiding] = await seen();
  // Its role no longer lists the field.
  expect(ofListing?.[0]).toBe('rights.changed');
  expect(ofHiding?.slice(-2)).toEqual([changed, changed]);
});

test('a cursor has no readable part, no two are alike, and none can be altered', async () => {
  const { reader, owner } = await newWorld();
  const read = async (): Promise<string> => (await reader.get('/api/changes')).body.data.nextCursor;
  const cursors = [await read(), await read(), await read()];
  expect(new Set(cursors).size).toBe(3);
  // Parts that are equal by chance are short.
  const [a, b] = cursors.map((cursor) => Buffer.from(cursor, 'base64url')) as [Buffer, Buffer];
  const equal = a.filter((byte, i) => byte === b[i]).length;
  expect(equal).toBeLessThan(a.length / 8);
  for (let i = 0; i < a.length; i += 7) {
    const altered = Buffer.from(a);
    altered[i] = (altered[i] as number) ^ 1;
    expect((await reader.get(`/api/changes?since=${altered.toString('base64url')}`)).status).toBe(400);
  }
  const spliced = Buffer.concat([a.subarray(0, 12), b.subarray(12)]).toString('base64url');
  expect((await owner.get(`/api/changes?since=${spliced}`)).status).toBe(400);
});

test('the number of running transactions changes neither the length nor the content of a cursor', async () => {
  const { owner, since } = await newWorld();
  const cursor = openCursor(service.app, { id: owner.id, settings: {} }, since);
  const { seen } = cursor.position;
  const of = (running: number): string => {
    const ids = Array.from({ length: running }, (_, i) => 9_000_000 + 3 * i);
    const snapshot = `9000000:9000100:${ids.join()}`;
    return sealCursor(service.app, owner.id, {
      ...cursor,
      position: { ...cursor.position, seen: { ...seen, snapshot } },
    });
  };
  expect(new Set([0, 1, 2, 5, 10, 15].map((running) => of(running).length)).size).toBe(1);
  const opened = openCursor(service.app, { id: owner.id, settings: {} }, of(3)).position.seen.snapshot;
  expect(opened).toBe('9000000:9000100:9000000,9000003,9000006');
});

test('a long poll ends with a change that the caller sees, or after its time, whatever else changes meanwhile', async () => {
  const { owner, reader, since } = await newWorld();
  const WAIT_S = 3;
  const startedAt = performance.now();
  const polled = reader.get(`/api/changes?since=${since}&wait=${WAIT_S}`);
  const { id } = await createRecord(owner, NOTES, { title: 'hidden' });
  // More events than one page looks at.
  await service.app.db.slow.rows(sql`
    insert into platform.events (id, xid, tenant_id, entity_id, entity, record_id, type, version, data, created_at,
      updated_at, triggered_by)
    select gen_random_uuid(), pg_current_xact_id(), tenant_id, entity_id, entity, record_id, type, version, data,
      created_at, updated_at, triggered_by
    from platform.events, generate_series(1, 25000)
    where tenant_id = ${owner.id}::uuid and record_id = ${id}::uuid`);
  let hasEnded = false;
  const ended = polled.then((answer) => {
    hasEnded = true;
    return answer;
  });
  while (!hasEnded) await goOn({ owner, reader, since }, 1);
  const { items } = (await ended).body.data;
  expect([items, performance.now() - startedAt >= WAIT_S * 1_000]).toEqual([[], true]);
  const next = reader.get(`/api/changes?since=${since}&wait=30`);
  await createRecord(owner, NOTES, { title: 'seen', open: true });
  expect((await next).body.data.items.map(({ data }: Json) => data.title)).toEqual(['seen']);
}, 60_000);
